// Virtual time, repeatability, and many clients on one scheduler.
#include "yonder/fabric/sim/world.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/fabric/scheduler.h"
#include "yonder/fabric/sim/internal/test_bed.h"
#include "yonder/testing/seed.h"

namespace yonder::fabric::sim {
namespace {

using namespace std::chrono_literals;

// A client that reads, adds and writes at random, and sleeps now and then.
Task<void> wander(Scheduler& scheduler, Endpoint& endpoint, RegionToken token, std::uint64_t seed, int rounds,
                  std::uint64_t& added) {
  Prng random(seed);
  std::vector<std::byte> buffer(512);
  for (int i = 0; i < rounds; ++i) {
    const std::size_t length = 8 + 8 * random.below(63);
    const std::uint64_t offset = 8 + 8 * random.below((token.length - 8 - length) / 8);
    const LocalPiece piece = LocalPiece::of(std::span(buffer).first(length));
    if (random.chance(0.3)) {
      const auto done = co_await endpoint.fetch_add(token.at(0), 1);
      if (done) ++added;
    } else if (random.chance(0.5)) {
      (void)co_await endpoint.read(piece, token.at(offset));
    } else {
      (void)co_await endpoint.write(piece, token.at(offset));
    }
    if (random.chance(0.1)) co_await scheduler.sleep_for(Duration(random.below(5000)));
  }
}

struct Outcome {
  std::uint64_t hash;
  Instant end;
  std::uint64_t added;
  std::uint64_t counter;
};

Outcome run_cluster(std::uint64_t seed, const FaultRates& rates) {
  TestBed bed({.world = {.seed = seed, .hosts = 5}});
  bed.world.inject(rates);
  Prng random(seed);
  std::uint64_t added = 0;
  Scheduler scheduler(bed.queue());
  for (std::size_t i = 0; i < 12; ++i) {
    scheduler.spawn(wander(scheduler, bed.client(i % 4), bed.token, random(), 50, added));
  }
  EXPECT_TRUE(scheduler.run(Deadline::after(bed.world.clock(), 100s)));
  std::uint64_t counter = 0;
  std::memcpy(&counter, bed.memory.data(), 8);
  return {bed.world.trace_hash(), bed.now(), added, counter};
}

TEST(World, TheSameSeedGivesTheSameRun) {
  const std::uint64_t seed = testing::test_seed();
  const FaultRates faults{.loss = 0.01, .delay = 0.1, .tear = 0.2};
  const Outcome first = run_cluster(seed, faults);
  const Outcome second = run_cluster(seed, faults);
  const Outcome other = run_cluster(seed + 1, faults);
  EXPECT_EQ(first.hash, second.hash);
  EXPECT_EQ(first.end, second.end);
  EXPECT_NE(first.hash, other.hash);
}

TEST(World, NothingIsLostWithoutFaults) {
  const Outcome run = run_cluster(testing::test_seed(), {});
  EXPECT_EQ(run.counter, run.added);
  EXPECT_GT(run.added, 0u);
}

TEST(World, OneSchedulerDrivesHundredsOfClientsOnManyHosts) {
  constexpr std::size_t kClients = 300;
  constexpr int kRounds = 20;
  TestBed bed({.world = {.seed = 3, .hosts = 31}});
  std::vector<TestClient> clients;
  for (std::uint32_t i = 0; i < kClients; ++i) {
    clients.push_back(bed.connect(1 + i % 30, {.endpoint = {.depth = 2, .receive_depth = 1}}));
  }
  std::uint64_t added = 0;
  Scheduler scheduler(*clients[0].queue);
  for (std::size_t i = 0; i < kClients; ++i) {
    scheduler.spawn(wander(scheduler, *clients[i].endpoint, bed.token, i, kRounds, added));
  }
  ASSERT_TRUE(scheduler.run(Deadline::after(bed.world.clock(), 10s)));
  std::uint64_t counter = 0;
  std::memcpy(&counter, bed.memory.data(), 8);
  EXPECT_EQ(counter, added);
  EXPECT_GE(bed.world.requests_completed(), kClients * kRounds);
}

TEST(World, TimePassesOnlyByWaiting) {
  TestBed bed;
  const Instant before = bed.now();
  std::uint64_t word = 1;
  const LocalPiece piece = LocalPiece::of(std::as_bytes(std::span(&word, 1)));
  const WorkRequest write{.op = Op::kWrite, .local = {&piece, 1}, .remote = bed.token.at(0)};
  ASSERT_TRUE(bed.client().post({&write, 1}));
  Completion done[1];
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(bed.queue().poll(done), 0u);
  EXPECT_EQ(bed.now(), before);
  EXPECT_TRUE(bed.queue().wait());
  EXPECT_GT(bed.now(), before);
  EXPECT_EQ(bed.queue().poll(done), 1u);
  bed.world.run_for(5ms);
  EXPECT_GE(bed.now() - before, 5ms);
}

TEST(World, AWaitForNothingEndsExactlyAtItsDeadline) {
  TestBed bed;
  const Instant until = bed.now() + 123us;
  const auto idle = bed.queue().wait(Deadline::at(until));
  ASSERT_FALSE(idle);
  EXPECT_EQ(idle.error(), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(bed.now(), until);
}

TEST(World, AWaitWithoutEndAndWithoutEventsReturns) {
  World world;
  auto queue = world.host(0).fabric().create_completion_queue({});
  ASSERT_TRUE(queue);
  EXPECT_FALSE((*queue)->wait(Deadline::never()));
}

Task<void> block_inside(Endpoint& endpoint, RemoteAddress word) {
  (void)co_await endpoint.fetch_add(word, 1);
  (void)endpoint.fetch_add(word, 1).wait();
}

TEST(WorldDeathTest, BlockingInsideACoroutineIsCaught) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  TestBed bed;
  Scheduler scheduler(bed.queue());
  scheduler.spawn(block_inside(bed.client(), bed.token.at(0)));
  EXPECT_DEATH((void)scheduler.run(Deadline::after(bed.world.clock(), 1s)),
               "blocking call inside a coroutine");
}

TEST(World, AThreadThatComputesPostsLater) {
  TestBed bed;
  std::uint64_t word = 1;
  const auto write = [&] {
    return bed.client().write(LocalPiece::of(std::as_bytes(std::span(&word, 1))), bed.token.at(0));
  };
  bed.time_ns(write);
  const double plain = bed.time_ns(write);
  spend_cpu(bed.queue(), 10us);
  EXPECT_NEAR(bed.time_ns(write), plain + 10'000, 100);
  // 100 pieces of 12 ns and 10,000 bytes of 0.08 ns.
  bed.queue().charge_copy(100, 10'000);
  EXPECT_NEAR(bed.time_ns(write), plain + 1200 + 800, 100);
}

TEST(World, DistanceAddsToBothWays) {
  TestBed near;
  TestBed far;
  far.world.add_distance(0, 1, 50us);
  std::uint64_t word = 0;
  const LocalPiece piece = LocalPiece::of(std::as_writable_bytes(std::span(&word, 1)));
  const double base = near.time_ns([&] { return near.client().read(piece, near.token.at(0)); });
  EXPECT_NEAR(far.time_ns([&] { return far.client().read(piece, far.token.at(0)); }), base + 100'000, 1);
}

TEST(World, TimesBeyondTheRangeMeanNever) {
  TestBed bed(
      {.connect = {.endpoint = {.default_timeout = Duration::max()}, .connect_timeout = Duration::max()}});
  EXPECT_TRUE(bed.client().fetch_add(bed.token.at(0), 1).wait());
  EXPECT_TRUE(bed.client().fetch_add(bed.token.at(0), 1, Deadline::never()).wait());
  const auto past =
      bed.client().fetch_add(bed.token.at(0), 1, Deadline::at(Instant::from_ns(INT64_MIN))).wait();
  ASSERT_FALSE(past);
  EXPECT_EQ(past.error(), ErrorCode::kDeadlineExceeded);
}

TEST(World, EndpointsUseQueuesOfTheirHost) {
  TestBed bed({.world = {.hosts = 3}});
  const auto endpoint = bed.world.host(2).fabric().connect({.address = "sim://host0:7400"}, bed.queue(0));
  ASSERT_FALSE(endpoint);
  EXPECT_EQ(endpoint.error(), ErrorCode::kInvalidArgument);
  const auto listener =
      bed.world.host(0).fabric().listen({.address = "sim://:0", .completion_queues = {&bed.queue(0)}});
  ASSERT_FALSE(listener);
  EXPECT_EQ(listener.error(), ErrorCode::kInvalidArgument);
}

TEST(World, HostsOfDifferentMakesLiveTogether) {
  World world({.hosts = 0});
  world.add_host({.name = "old", .nics = {{.model = connectx3_40g()}}});
  world.add_host({.name = "new", .nics = {{.model = rdma100g()}}});
  EXPECT_FALSE(world.host(0).fabric().capabilities().on_demand_paging);
  EXPECT_TRUE(world.host(1).fabric().capabilities().on_demand_paging);
  auto listener = world.host(0).fabric().listen({.address = "sim://old:7400", .passive = true});
  ASSERT_TRUE(listener) << listener.error();
  EXPECT_EQ((*listener)->address(), "sim://old:7400");
  EXPECT_FALSE(world.host(1).fabric().listen({.address = "sim://old:7401", .passive = true}));
  auto queue = world.host(1).fabric().create_completion_queue({});
  EXPECT_TRUE(world.host(1).fabric().connect({.address = "sim://old:7400"}, **queue));
  const auto nowhere = world.host(1).fabric().connect({.address = "sim://elsewhere:7400"}, **queue);
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error(), ErrorCode::kConnectionRefused);
}

TEST(World, TwoNicsOfAHostDoubleItsThroughput) {
  WorldOptions options{.hosts = 3};
  options.host = {.sockets = 2, .nics = {{.socket = 0}, {.socket = 1}}};
  TestBed bed({.world = options});
  bed.clients.clear();
  auto second = bed.world.host(0).fabric().listen({.address = "sim://:7401?nic=1", .passive = true});
  ASSERT_TRUE(second) << second.error();
  const auto rate = [&](const char* other_port) {
    TestClient a = bed.connect(1, {.address = "sim://host0:7400"});
    TestClient b = bed.connect(2, {.address = other_port});
    std::vector<std::byte> bytes(32);
    const LocalPiece piece = LocalPiece::of(std::span(bytes));
    const std::vector<WorkRequest> writes(
        100,
        {.op = Op::kWrite, .flags = RequestFlags::kInline, .local = {&piece, 1}, .remote = bed.token.at(0)});
    const Instant begin = bed.now();
    EXPECT_TRUE(a.endpoint->post(writes) && b.endpoint->post(writes));
    for (CompletionQueue* queue : {a.queue.get(), b.queue.get()}) {
      for (std::size_t ended = 0; ended < writes.size();) {
        Completion batch[32];
        ended += queue->poll(batch);
        if (ended < writes.size()) (void)queue->wait();
      }
    }
    return 1e6 / static_cast<double>((bed.now() - begin).count());
  };
  EXPECT_GT(rate("sim://host0:7401"), 1.6 * rate("sim://host0:7400"));
}

}  // namespace
}  // namespace yonder::fabric::sim
