// Many connections, many regions, no descriptors left.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>

#include "yonder/base/prng.h"
#include "yonder/fabric/shm/test_support.h"
#include "yonder/testing/seed.h"

namespace yonder::fabric::shm {
namespace {

constexpr std::size_t kConnections = 1000;
// Per connection and side: a socket, the peer's eventfd; plus the test's own.
constexpr rlim_t kDescriptors = 4 * kConnections + 500;

bool raise_descriptor_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= kDescriptors) return true;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, kDescriptors);
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur >= kDescriptors;
}

TEST(Scale, AThousandConnectionsOnOneQueue) {
  if (!raise_descriptor_limit()) GTEST_SKIP() << "needs " << kDescriptors << " descriptors";
  auto fabric = must(open({}));
  auto server_queue = must(fabric->create_completion_queue({.capacity = 20'000}));
  auto client_queue = must(fabric->create_completion_queue({.capacity = 20'000}));
  const EndpointOptions small{.depth = 4, .receive_depth = 4, .max_message = 1024};
  auto listener = must(fabric->listen(
      {.address = "shm:?inprocess=off", .endpoint = small, .completion_queues = {server_queue.get()}}));
  std::vector<std::unique_ptr<Endpoint>> clients;
  std::vector<std::unique_ptr<Endpoint>> servers;
  std::vector<std::byte> buffers(kConnections * 64);
  for (std::size_t i = 0; i < kConnections; ++i) {
    clients.push_back(
        must(fabric->connect({.address = listener->address(), .endpoint = small}, *client_queue)));
    servers.push_back(must(listener->accept(within())));
    const ReceiveRequest receive{.user_data = i,
                                 .buffer = LocalPiece::of(std::span(buffers).subspan(i * 64, 64))};
    ASSERT_TRUE(servers.back()->post_receive({&receive, 1}));
  }
  EXPECT_EQ(listener->connection_count(), kConnections);
  for (std::size_t i = 0; i < kConnections; ++i) {
    const LocalPiece piece = LocalPiece::of(std::as_bytes(std::span(&i, 1)));
    const WorkRequest request{.op = Op::kSend,
                              .flags = RequestFlags::kUnsignalled,
                              .immediate = static_cast<std::uint32_t>(i),
                              .local = {&piece, 1}};
    ASSERT_TRUE(clients[i]->post({&request, 1}));
  }
  std::vector<int> seen(kConnections);
  const Deadline deadline = within();
  for (std::size_t got = 0; got < kConnections && !deadline.passed(os::SteadyClock::read());) {
    Completion done[64];
    const std::size_t count = server_queue->poll(done);
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_TRUE(done[i].ok());
      EXPECT_EQ(done[i].user_data, done[i].immediate);
      EXPECT_EQ(std::memcmp(buffers.data() + done[i].user_data * 64, &done[i].user_data, 8), 0);
      ++seen[done[i].immediate];
    }
    got += count;
    if (count == 0) (void)server_queue->wait(deadline);
  }
  EXPECT_EQ(seen, std::vector<int>(kConnections, 1));
  clients.clear();
  EXPECT_TRUE(eventually([&] { return listener->connection_count() == 0; }));
  servers.clear();
}

TEST(Scale, AHundredThousandRegions) {
  constexpr std::size_t kRegions = 100'000;
  PassivePair pair = PassivePair::create("");
  std::vector<std::uint64_t> words(kRegions);
  std::vector<Region> regions;
  regions.reserve(kRegions);
  for (std::size_t i = 0; i < kRegions; ++i) {
    words[i] = i * 3;
    regions.push_back(
        must(pair.target->register_memory({.memory = std::as_writable_bytes(std::span(&words[i], 1))})));
  }
  Prng random(::yonder::testing::test_seed());
  for (int round = 0; round < 3000; ++round) {
    const std::size_t i = random.below(kRegions);
    std::uint64_t word = 0;
    const LocalPiece piece = LocalPiece::of(std::as_writable_bytes(std::span(&word, 1)));
    const auto done = pair.endpoint->read(piece, regions[i].token().at(0), within()).wait();
    ASSERT_TRUE(done) << done.error();
    ASSERT_EQ(word, i * 3);
  }
}

TEST(Scale, OutOfDescriptorsFailsTheNewAndKeepsTheOld) {
  PassivePair pair = PassivePair::create("?inprocess=off");
  const SharedMemory memory = SharedMemory::create(4096);
  Region region = must(pair.target->register_memory({.memory = memory.bytes(), .backing = memory.backing()}));
  std::byte byte{};
  ASSERT_TRUE(pair.endpoint->read(LocalPiece{&byte, 1}, region.token().at(0), within()).wait());
  rlimit saved{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &saved), 0);
  const int next = ::dup(0);
  ASSERT_GE(next, 0);
  ::close(next);
  const rlimit tight{static_cast<rlim_t>(next) + 2, saved.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
  const auto refused = pair.initiator->connect(
      {.address = pair.listener->address(), .connect_timeout = std::chrono::milliseconds(300)}, *pair.queue);
  EXPECT_TRUE(pair.endpoint->read(LocalPiece{&byte, 1}, region.token().at(8), within()).wait());
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &saved), 0);
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error() == ErrorCode::kResourceExhausted ||
              refused.error() == ErrorCode::kDeadlineExceeded)
      << refused.error();
  const auto later = pair.initiator->connect({.address = pair.listener->address()}, *pair.queue);
  EXPECT_TRUE(later) << later.error();
}

TEST(Scale, AnIdleFabricBurnsNoCpu) {
  PassivePair pair = PassivePair::create("?inprocess=off");
  rusage before{};
  ::getrusage(RUSAGE_SELF, &before);
  (void)pair.queue->wait(within(std::chrono::milliseconds(1000)));
  rusage after{};
  ::getrusage(RUSAGE_SELF, &after);
  const auto micros = [](const rusage& usage) {
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1'000'000 + usage.ru_utime.tv_usec +
           usage.ru_stime.tv_usec;
  };
  // CPU time, not wall time, so a loaded machine does not matter: both sides
  // together below 2 % of a second.
  EXPECT_LT(micros(after) - micros(before), 20'000);
}

}  // namespace
}  // namespace yonder::fabric::shm
