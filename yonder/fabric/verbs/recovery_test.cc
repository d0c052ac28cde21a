// What broken queue pairs must not break, on a real RDMA device.
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <thread>

#include "yonder/fabric/verbs/device_test_support.h"
#include "yonder/testing/patience.h"

namespace yonder::fabric::verbs {
namespace {

using std::chrono::milliseconds;

const RequireDevice kDevice;

// Queue pairs of this machine, as the kernel counts them.
int count_queue_pairs() {
  FILE* pipe = ::popen("rdma resource show qp 2>/dev/null | grep -c 'type RC'", "r");
  if (pipe == nullptr) return -1;
  int count = -1;
  if (std::fscanf(pipe, "%d", &count) != 1) count = -1;
  ::pclose(pipe);
  return count;
}

class Recovery : public ::testing::Test {
 protected:
  static constexpr std::size_t kBytes = 64 * 1024;

  void SetUp() override {
    auto fabric = open();
    ASSERT_TRUE(fabric) << fabric.error();
    fabric_ = std::move(*fabric);
    region_ = register_bytes(memory_, Rights::kAll);
    client_queue_ = make_queue();
    server_queue_ = make_queue();
    auto listener = fabric_->listen({.address = "verbs://*:0", .completion_queues = {server_queue_.get()}});
    ASSERT_TRUE(listener) << listener.error();
    listener_ = std::move(*listener);
    client_ = connect({});
    server_ = accept();
    ASSERT_TRUE(client_ && server_);
  }

  std::unique_ptr<CompletionQueue> make_queue() {
    auto queue = fabric_->create_completion_queue({});
    EXPECT_TRUE(queue);
    return queue ? std::move(*queue) : nullptr;
  }
  Region register_bytes(std::span<std::byte> bytes, Rights rights) {
    auto region = fabric_->register_memory({.memory = bytes, .rights = rights});
    EXPECT_TRUE(region) << region.error();
    return region ? std::move(*region) : Region();
  }
  std::unique_ptr<Endpoint> connect(EndpointOptions options) {
    auto endpoint = fabric_->connect({.address = listener_->address(),
                                      .endpoint = options,
                                      .connect_timeout = ::yonder::testing::kPatience},
                                     *client_queue_);
    EXPECT_TRUE(endpoint) << endpoint.error();
    return endpoint ? std::move(*endpoint) : nullptr;
  }
  std::unique_ptr<Endpoint> accept() {
    auto endpoint = listener_->accept(soon());
    EXPECT_TRUE(endpoint) << endpoint.error();
    return endpoint ? std::move(*endpoint) : nullptr;
  }
  Deadline soon(Duration duration = ::yonder::testing::kPatience) const {
    return Deadline::after(fabric_->clock(), duration);
  }

  // Polls both queues until `count` completions of `queue` came: both sides'
  // applications are awake.
  std::vector<Completion> collect(CompletionQueue& queue, std::size_t count) {
    CompletionQueue& other = &queue == client_queue_.get() ? *server_queue_ : *client_queue_;
    std::vector<Completion>& kept = &queue == client_queue_.get() ? server_done_ : client_done_;
    std::vector<Completion>& mine = &queue == client_queue_.get() ? client_done_ : server_done_;
    const Deadline deadline = soon();
    while (mine.size() < count && !deadline.passed(fabric_->clock().now())) {
      poll_into(queue, mine);
      poll_into(other, kept);
      if (mine.size() < count) (void)queue.wait(soon(milliseconds(1)));
    }
    std::vector<Completion> out(mine.begin(), mine.begin() + static_cast<long>(std::min(count, mine.size())));
    mine.erase(mine.begin(), mine.begin() + static_cast<long>(out.size()));
    return out;
  }
  // The same, but nobody looks at the other queue, or another thread does.
  std::vector<Completion> collect_alone(CompletionQueue& queue, std::size_t count) {
    std::vector<Completion> out;
    const Deadline deadline = soon();
    while (out.size() < count && !deadline.passed(fabric_->clock().now())) {
      poll_into(queue, out);
      if (out.size() < count) (void)queue.wait(soon(milliseconds(1)));
    }
    return out;
  }
  static void poll_into(CompletionQueue& queue, std::vector<Completion>& out) {
    Completion batch[32];
    const std::size_t count = queue.poll(batch);
    out.insert(out.end(), batch, batch + count);
  }

  // A read past the end: refused by the target's NIC.
  WorkRequest bad_read(std::uint64_t user_data) {
    return {.user_data = user_data,
            .local = {&bad_piece_, 1},
            .remote = region_.token().at(kBytes),
            .deadline = soon()};
  }
  WorkRequest add(std::size_t offset, std::uint64_t user_data) {
    return {.op = Op::kFetchAdd,
            .user_data = user_data,
            .remote = region_.token().at(offset),
            .operand = 1,
            .deadline = soon()};
  }
  std::uint64_t word(std::size_t offset) const {
    std::uint64_t value = 0;
    std::memcpy(&value, memory_.data() + offset, 8);
    return value;
  }

  alignas(4096) std::array<std::byte, kBytes> memory_{};
  std::uint64_t bad_word_ = 0;
  LocalPiece bad_piece_ = LocalPiece::of(std::as_writable_bytes(std::span(&bad_word_, 1)));
  std::unique_ptr<Fabric> fabric_;
  Region region_;
  std::unique_ptr<CompletionQueue> client_queue_;
  std::unique_ptr<CompletionQueue> server_queue_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Endpoint> client_;
  std::unique_ptr<Endpoint> server_;
  std::vector<Completion> client_done_;
  std::vector<Completion> server_done_;
};

TEST_F(Recovery, RepeatsWhatFollowedARefusalOnceAndInOrder) {
  // Additions show what was executed twice or never, their old values the order.
  std::vector<WorkRequest> batch;
  for (std::uint64_t i = 0; i < 60; ++i) batch.push_back(i % 20 == 10 ? bad_read(i) : add(0, i));
  ASSERT_EQ(client_->post(batch).value_or(0), batch.size());
  const auto done = collect(*client_queue_, batch.size());
  ASSERT_EQ(done.size(), batch.size());
  std::uint64_t expected = 0;
  for (std::size_t i = 0; i < done.size(); ++i) {
    EXPECT_EQ(done[i].user_data, i);
    if (i % 20 == 10) {
      EXPECT_EQ(done[i].status, ErrorCode::kOutOfBounds);
    } else {
      ASSERT_TRUE(done[i].ok()) << i << ": " << done[i].status;
      EXPECT_EQ(done[i].value, expected++);
    }
  }
  EXPECT_EQ(word(0), 57u);
}

TEST_F(Recovery, RefusalsLeaveNoQueuePairsBehind) {
  const int before = count_queue_pairs();
  ASSERT_GT(before, 0) << "the program rdma must be there to count";
  for (std::uint64_t i = 0; i < 20; ++i) {
    const WorkRequest bad = bad_read(i);
    ASSERT_TRUE(client_->post({&bad, 1}));
    const auto done = collect(*client_queue_, 1);
    ASSERT_EQ(done.size(), 1u);
    EXPECT_EQ(done[0].status, ErrorCode::kOutOfBounds);
  }
  (void)collect(*server_queue_, 0);
  const Deadline deadline = soon();
  while (count_queue_pairs() != before && !deadline.passed(fabric_->clock().now())) {
    poll_into(*server_queue_, server_done_);
    poll_into(*client_queue_, client_done_);
  }
  EXPECT_EQ(count_queue_pairs(), before);
}

TEST_F(Recovery, APeersRefusalLosesNoneOfOurMessages) {
  constexpr std::uint64_t kMessages = 60;
  std::vector<std::uint64_t> inbox(kMessages);
  std::vector<ReceiveRequest> receives(kMessages);
  for (std::size_t i = 0; i < kMessages; ++i) {
    receives[i] = {.user_data = i, .buffer = LocalPiece::of(std::as_bytes(std::span(&inbox[i], 1)))};
  }
  ASSERT_TRUE(client_->post_receive(receives));
  std::size_t received = 0;
  for (std::uint64_t i = 0; i < kMessages; i += 6) {
    // Every other time the refusal comes first, so that the messages meet a queue
    // pair that is about to fail.
    const WorkRequest bad = bad_read(1000 + i);
    if (i % 12 == 0) {
      ASSERT_TRUE(client_->post({&bad, 1}));
    }
    for (std::uint64_t j = i; j < i + 6; ++j) {
      const LocalPiece piece = LocalPiece::of(std::as_bytes(std::span(&j, 1)));
      const WorkRequest send{.op = Op::kSend,
                             .flags = RequestFlags::kInline,
                             .user_data = j,
                             .local = {&piece, 1},
                             .deadline = soon()};
      ASSERT_TRUE(server_->post({&send, 1}));
    }
    if (i % 12 != 0) {
      ASSERT_TRUE(client_->post({&bad, 1}));
    }
    for (const Completion& completion : collect(*client_queue_, 7)) {
      if (completion.op == Op::kRead) {
        EXPECT_EQ(completion.status, ErrorCode::kOutOfBounds);
      } else {
        ASSERT_TRUE(completion.ok()) << completion.status;
        EXPECT_EQ(completion.user_data, received++);
      }
    }
    for (const Completion& completion : collect(*server_queue_, 6)) {
      EXPECT_TRUE(completion.ok()) << completion.user_data << ": " << completion.status;
    }
  }
  std::vector<std::uint64_t> expected(kMessages);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(inbox, expected);
}

TEST_F(Recovery, AnAcceptingEndpointIsRefusedAndGoesOn) {
  const WorkRequest batch[] = {add(8, 1), bad_read(2), add(8, 3)};
  ASSERT_EQ(server_->post(batch).value_or(0), 3u);
  const auto done = collect(*server_queue_, 3);
  ASSERT_EQ(done.size(), 3u);
  EXPECT_TRUE(done[0].ok()) << done[0].status;
  EXPECT_EQ(done[1].status, ErrorCode::kAccessDenied);
  EXPECT_TRUE(done[2].ok()) << done[2].status;
  EXPECT_EQ(word(8), 2u);
  const WorkRequest after = add(8, 4);
  ASSERT_TRUE(client_->post({&after, 1}));
  const auto healthy = collect(*client_queue_, 1);
  ASSERT_EQ(healthy.size(), 1u);
  EXPECT_TRUE(healthy[0].ok()) << healthy[0].status;
}

TEST_F(Recovery, AMessageTooLongForTheBufferFailsAlone) {
  std::vector<std::byte> inbox(64);
  const ReceiveRequest receive{.user_data = 9, .buffer = LocalPiece::of(std::span(inbox))};
  ASSERT_TRUE(server_->post_receive({&receive, 1}));
  const std::vector<std::byte> outbox(512, std::byte{7});
  const LocalPiece too_long = LocalPiece::of(std::span(outbox));
  const LocalPiece fitting = LocalPiece::of(std::span(outbox).first(64));
  const WorkRequest batch[] = {{.op = Op::kSend, .user_data = 1, .local = {&too_long, 1}, .deadline = soon()},
                               {.op = Op::kSend, .user_data = 2, .local = {&fitting, 1}, .deadline = soon()}};
  ASSERT_EQ(client_->post(batch).value_or(0), 2u);
  const auto done = collect(*client_queue_, 2);
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[0].status, ErrorCode::kMessageTooLong);
  EXPECT_TRUE(done[1].ok()) << done[1].status;
  const auto got = collect(*server_queue_, 1);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_TRUE(got[0].ok()) << got[0].status;
  EXPECT_EQ(got[0].length, 64u);
  EXPECT_EQ(inbox[63], std::byte{7});
}

TEST_F(Recovery, APassedDeadlineBreaksTheConnectionAndAnotherIsMade) {
  const WorkRequest stuck{.op = Op::kSend, .user_data = 1, .deadline = soon(milliseconds(100))};
  ASSERT_TRUE(client_->post({&stuck, 1}));
  const auto late = collect(*client_queue_, 1);
  ASSERT_EQ(late.size(), 1u);
  EXPECT_EQ(late[0].status, ErrorCode::kDeadlineExceeded);
  const WorkRequest after = add(16, 2);
  ASSERT_TRUE(client_->post({&after, 1}));
  const auto done = collect(*client_queue_, 1);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_TRUE(done[0].ok()) << done[0].status;
  EXPECT_EQ(word(16), 1u);
  EXPECT_NE(accept(), nullptr);
}

// Soft-RoCE's doorbell is a system call, and the kernel serves no thread whose
// credentials changed since the device was opened.
TEST_F(Recovery, ADoorbellThatFailsCostsTheConnectionAndAnotherIsMade) {
  std::uint64_t value = 0;
  const auto into = LocalPiece::of(std::as_bytes(std::span(&value, 1)));
  ErrorCode code = ErrorCode::kOk;
  std::thread stranger([&] {
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    std::array<__user_cap_data_struct, 2> sets{};
    ::syscall(SYS_capget, &header, sets.data());
    ::syscall(SYS_capset, &header, sets.data());  // The same rights, but new credentials.
    const auto done = client_->read(into, region_.token().at(0), soon(milliseconds(300))).wait();
    if (!done) code = done.error().code();
  });
  stranger.join();
  if (code == ErrorCode::kOk) GTEST_SKIP() << "this device's doorbell is no system call";
  EXPECT_TRUE(code == ErrorCode::kDeadlineExceeded || code == ErrorCode::kConnectionLost) << code;
  const auto done = client_->read(into, region_.token().at(0), soon()).wait();
  EXPECT_TRUE(done) << done.error();
}

TEST_F(Recovery, AClosedListenerStillLetsABrokenConnectionResume) {
  listener_->close();
  const WorkRequest batch[] = {bad_read(1), add(24, 2)};
  ASSERT_EQ(client_->post(batch).value_or(0), 2u);
  const auto done = collect(*client_queue_, 2);
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[0].status, ErrorCode::kOutOfBounds);
  EXPECT_TRUE(done[1].ok()) << done[1].status;
}

// The accepting side does not look while the initiator is refused again and again: each
// message arrives by a queue pair that is gone when it looks.
TEST_F(Recovery, MessagesOfLinksThatNobodySawAreTakenInOrder) {
  auto shared = fabric_->create_receive_queue({.capacity = 8});
  ASSERT_TRUE(shared) << shared.error();
  auto listener = fabric_->listen({.address = "verbs://*:0",
                                   .endpoint = {.receive_queue = shared->get()},
                                   .completion_queues = {server_queue_.get()}});
  ASSERT_TRUE(listener) << listener.error();
  auto client = fabric_->connect(
      {.address = (*listener)->address(), .connect_timeout = ::yonder::testing::kPatience}, *client_queue_);
  ASSERT_TRUE(client) << client.error();
  auto server = (*listener)->accept(soon());
  ASSERT_TRUE(server) << server.error();
  const std::vector<ReceiveRequest> receives(8, {.buffer = {}});
  ASSERT_TRUE((*shared)->post(receives));
  std::vector<WorkRequest> batch;
  for (std::uint32_t i = 0; i < 4; ++i) {
    batch.push_back({.op = Op::kSend, .immediate = i, .user_data = i, .deadline = soon()});
    batch.push_back(bad_read(100 + i));
  }
  ASSERT_EQ((*client)->post(batch).value_or(0), batch.size());
  ASSERT_EQ(collect_alone(*client_queue_, batch.size()).size(), batch.size());
  const auto got = collect(*server_queue_, 4);
  ASSERT_EQ(got.size(), 4u);
  for (std::uint32_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(got[i].ok()) << got[i].status;
    EXPECT_EQ(got[i].immediate, i);
  }
  client->reset();
  server->reset();
  (*shared)->close();
}

// The initiator is refused twice, and may be back for the second time while the accepting side
// is busy with the first: it then finds a link that the initiator has left, and a newer one.
TEST_F(Recovery, APeerThatResumesTwiceIsNotTakenForGone) {
  std::uint64_t inbox = 0;
  const ReceiveRequest receive{.user_data = 7, .buffer = LocalPiece::of(std::as_bytes(std::span(&inbox, 1)))};
  ASSERT_TRUE(client_->post_receive({&receive, 1}));
  std::atomic<bool> is_over = false;
  std::thread serving([&] {
    while (!is_over) (void)server_queue_->wait(soon(milliseconds(1)));
  });
  for (std::uint64_t round = 0; round < 20; ++round) {
    const WorkRequest batch[] = {bad_read(1), bad_read(2), add(32, 3)};
    EXPECT_EQ(client_->post(batch).value_or(0), 3u);
    const auto done = collect_alone(*client_queue_, 3);
    EXPECT_EQ(done.size(), 3u);
    for (const Completion& one : done) EXPECT_EQ(one.ok(), one.user_data == 3) << one.status;
  }
  is_over = true;
  serving.join();
  // The same connection goes on: another one would not have our receive.
  const WorkRequest message{.op = Op::kSend, .user_data = 9, .deadline = soon()};
  ASSERT_TRUE(server_->post({&message, 1}));
  const auto sent = collect(*server_queue_, 1);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_TRUE(sent[0].ok()) << sent[0].status;
  const auto got = collect(*client_queue_, 1);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_TRUE(got[0].ok()) << got[0].status;
}

TEST_F(Recovery, ASharedReceiveQueueOutlivesItsBrokenQueuePairs) {
  auto shared = fabric_->create_receive_queue({.capacity = 8});
  ASSERT_TRUE(shared) << shared.error();
  auto listener = fabric_->listen({.address = "verbs://*:0",
                                   .endpoint = {.receive_queue = shared->get()},
                                   .completion_queues = {server_queue_.get()}});
  ASSERT_TRUE(listener) << listener.error();
  auto client = fabric_->connect({.address = (*listener)->address()}, *client_queue_);
  ASSERT_TRUE(client) << client.error();
  auto server = (*listener)->accept(soon());
  ASSERT_TRUE(server) << server.error();
  std::vector<std::byte> inbox(8 * 64);
  std::vector<ReceiveRequest> receives(8);
  for (std::size_t i = 0; i < receives.size(); ++i) {
    receives[i] = {.user_data = i, .buffer = LocalPiece::of(std::span(inbox).subspan(i * 64, 64))};
  }
  ASSERT_TRUE((*shared)->post(receives));
  for (std::uint32_t i = 0; i < 8; ++i) {
    const WorkRequest batch[] = {bad_read(100),
                                 {.op = Op::kSend, .immediate = i, .user_data = i, .deadline = soon()}};
    ASSERT_EQ((*client)->post(batch).value_or(0), 2u);
    ASSERT_EQ(collect(*client_queue_, 2).size(), 2u);
    const auto got = collect(*server_queue_, 1);
    ASSERT_EQ(got.size(), 1u);
    EXPECT_TRUE(got[0].ok()) << got[0].status;
    EXPECT_EQ(got[0].immediate, i);
    EXPECT_EQ(got[0].endpoint, (*server)->id());
  }
  client->reset();
  server->reset();
  (*shared)->close();
}

}  // namespace
}  // namespace yonder::fabric::verbs
