#include "yonder/fabric/conformance/bed.h"

#include <cstring>

namespace yonder::fabric::conformance {

void Conformance::SetUp() {
  bed_ = GetParam().make_bed();
  ASSERT_NE(bed_, nullptr);
  memory_ = bed_->allocate(kBytes);
  region_ = register_region(memory_, Rights::kAll);
  ASSERT_TRUE(region_);
  token_ = region_.token();
  auto client_queue = bed_->initiator().create_completion_queue({});
  auto server_queue = bed_->target().create_completion_queue({});
  ASSERT_TRUE(client_queue) << client_queue.error();
  ASSERT_TRUE(server_queue) << server_queue.error();
  client_queue_ = std::move(*client_queue);
  server_queue_ = std::move(*server_queue);
  ListenOptions options{.address = bed_->listen_address(), .completion_queues = {server_queue_.get()}};
  options.greeting.resize(RegionToken::kEncodedBytes);
  token_.encode(std::span(options.greeting).first<RegionToken::kEncodedBytes>());
  auto listener = bed_->target().listen(options);
  ASSERT_TRUE(listener) << listener.error();
  listener_ = std::move(*listener);
  client_ = connect();
  ASSERT_NE(client_, nullptr);
  server_ = accept();
  ASSERT_NE(server_, nullptr);
}

void Conformance::TearDown() {
  client_.reset();
  server_.reset();
  listener_.reset();
  client_queue_.reset();
  server_queue_.reset();
  region_ = Region();
  memory_ = {};
  bed_.reset();
}

Region Conformance::register_region(const Memory& memory, Rights rights) {
  auto region =
      bed_->target().register_memory({.memory = memory.bytes, .rights = rights, .backing = memory.backing});
  EXPECT_TRUE(region) << region.error();
  return region ? std::move(*region) : Region();
}

std::unique_ptr<Endpoint> Conformance::connect(EndpointOptions options) {
  auto endpoint = bed_->initiator().connect(
      {.address = listener_->address(), .endpoint = options, .connect_timeout = ::yonder::testing::kPatience},
      *client_queue_);
  EXPECT_TRUE(endpoint) << endpoint.error();
  return endpoint ? std::move(*endpoint) : nullptr;
}

std::unique_ptr<Endpoint> Conformance::accept() {
  auto endpoint = listener_->accept(soon());
  EXPECT_TRUE(endpoint) << endpoint.error();
  return endpoint ? std::move(*endpoint) : nullptr;
}

std::vector<Completion> Conformance::collect(CompletionQueue& queue, std::size_t count, Duration limit) {
  std::vector<Completion> all;
  const Deadline deadline = Deadline::after(queue.clock(), limit);
  while (all.size() < count && !deadline.passed(queue.clock().now())) {
    Completion batch[32];
    const std::size_t got = queue.poll(std::span(batch).first(std::min<std::size_t>(32, count - all.size())));
    all.insert(all.end(), batch, batch + got);
    if (got == 0) (void)queue.wait(deadline);
  }
  return all;
}

WorkRequest Conformance::request(Op op, RemoteAddress remote, std::size_t length) {
  scratch_.assign(length, std::byte{0});
  scratch_piece_ = LocalPiece::of(std::span(scratch_));
  WorkRequest out{.op = op, .remote = remote, .deadline = soon()};
  if (!is_atomic(op)) out.local = {&scratch_piece_, 1};
  return out;
}

bool Conformance::is_refusal(ErrorCode got, ErrorCode expected) const {
  const bool coarse = bed_->target().capabilities().provider == "verbs";
  return got == expected || (coarse && got == ErrorCode::kAccessDenied);
}

void Conformance::expect_only_it_fails(WorkRequest bad, ErrorCode expected) {
  std::byte buffer[8];
  const LocalPiece piece = LocalPiece::of(std::span(buffer));
  const WorkRequest before{.user_data = 1, .local = {&piece, 1}, .remote = token_.at(0), .deadline = soon()};
  WorkRequest after = before;
  bad.user_data = 2;
  after.user_data = 3;
  const WorkRequest batch[] = {before, bad, after};
  ASSERT_EQ(client_->post(batch).value_or(0), 3u);
  const auto done = collect(*client_queue_, 3);
  ASSERT_EQ(done.size(), 3u);
  for (const Completion& completion : done) {
    if (completion.user_data == 2) {
      EXPECT_TRUE(is_refusal(completion.status, expected)) << completion.status << ", not " << expected;
    } else {
      EXPECT_TRUE(completion.ok()) << completion.user_data << ": " << completion.status;
    }
  }
  expect_healthy();
}

void Conformance::expect_healthy() {
  std::uint64_t value = 0;
  const LocalPiece piece = LocalPiece::of(std::as_writable_bytes(std::span(&value, 1)));
  const auto done = client_->read(piece, token_.at(0), soon()).wait();
  EXPECT_TRUE(done) << done.error();
}

}  // namespace yonder::fabric::conformance
