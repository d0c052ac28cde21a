// Each kind of fault, and what the application sees of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <set>

#include "yonder/fabric/sim/internal/test_bed.h"
#include "yonder/testing/seed.h"

namespace yonder::fabric::sim {
namespace {

using namespace std::chrono_literals;

ErrorCode add_one(TestBed& bed, std::size_t client = 0, Duration timeout = 5s) {
  const auto done =
      bed.client(client).fetch_add(bed.token.at(0), 1, Deadline::after(bed.world.clock(), timeout)).wait();
  return done ? ErrorCode::kOk : done.error().code();
}

std::uint64_t counter(const TestBed& bed) {
  std::uint64_t value = 0;
  std::memcpy(&value, bed.memory.data(), 8);
  return value;
}

TEST(Faults, ALostMessageOnlyDelays) {
  TestBed bed({.world = {.seed = testing::test_seed()}});
  bed.world.inject({.loss = 0.05});  // Eight losses in a row would break it: once in 10^8 runs.
  Duration longest{0};
  for (int i = 0; i < 200; ++i) {
    const Instant begin = bed.now();
    ASSERT_EQ(add_one(bed), ErrorCode::kOk);
    longest = std::max(longest, bed.now() - begin);
  }
  EXPECT_EQ(counter(bed), 200u);  // Repeated requests are not executed twice.
  EXPECT_GT(longest, 4ms);
}

TEST(Faults, ALossThatNeverEndsBreaksTheConnection) {
  TestBed bed({.connect = {.reconnect = false}});
  bed.world.inject({.loss = 1});
  const Instant begin = bed.now();
  EXPECT_EQ(add_one(bed), ErrorCode::kConnectionLost);
  EXPECT_EQ(bed.now() - begin, 8 * 4ms);  // Seven retries.
  EXPECT_EQ(bed.client().state(), EndpointState::kBroken);
}

TEST(Faults, DelaysKeepTheOrderOfAConnection) {
  TestBed bed({.world = {.seed = testing::test_seed()}});
  bed.world.inject({.delay = 0.5, .max_delay = us(300)});
  std::vector<WorkRequest> adds;
  for (std::uint64_t i = 0; i < 100; ++i) {
    adds.push_back({.op = Op::kFetchAdd, .user_data = i, .remote = bed.token.at(0), .operand = 1});
  }
  ASSERT_EQ(bed.client().post(adds).value_or(0), 100u);
  bed.world.run_for(1s);
  Completion done[100];
  ASSERT_EQ(bed.queue().poll(done), 100u);
  for (std::uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(done[i].user_data, i);
    EXPECT_EQ(done[i].value, i);  // E1: executed in post order.
  }
}

TEST(Faults, ACrashedHostIsGivenUpAfterDetection) {
  TestBed bed;
  bed.world.schedule({.at = bed.now() + 1us, .kind = FaultKind::kCrash, .host = 0});
  const Instant begin = bed.now();
  EXPECT_EQ(add_one(bed), ErrorCode::kConnectionLost);
  EXPECT_NEAR(static_cast<double>((bed.now() - begin).count()), 100e6, 1e5);
  EXPECT_FALSE(bed.world.host(0).is_up());
  EXPECT_EQ(bed.client().state(), EndpointState::kReconnecting);
  // Nobody answers: what waits for the connection ends at its own deadline.
  EXPECT_EQ(add_one(bed, 0, 20ms), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(counter(bed), 0u);
}

TEST(Faults, ARestartedHostIsEmptyUntilItsApplicationReturns) {
  TestBed bed({.connect = {.connect_timeout = 50ms, .max_backoff = 20ms}});
  bed.world.schedule({.at = bed.now(), .kind = FaultKind::kCrash, .host = 0});
  bed.world.schedule({.at = bed.now() + 300ms, .kind = FaultKind::kRestart, .host = 0});
  bed.world.run_for(400ms);
  EXPECT_TRUE(bed.world.host(0).is_up());
  EXPECT_EQ(bed.client().state(), EndpointState::kReconnecting);
  bed.listener.reset();
  bed.listen();
  bed.world.run_for(100ms);
  EXPECT_EQ(bed.client().state(), EndpointState::kOpen);
  EXPECT_EQ(add_one(bed), ErrorCode::kUnknownKey);  // Registrations died with the host.
  auto again = bed.world.host(0).fabric().register_memory({.memory = bed.memory, .rights = Rights::kAll});
  ASSERT_TRUE(again);
  EXPECT_TRUE(bed.client().fetch_add(again->token().at(0), 1).wait());
}

TEST(Faults, ACrashedInitiatorLosesItsConnectionsAtOnce) {
  TestBed bed({.world = {.hosts = 3}});
  bed.world.schedule({.at = bed.now() + 500ns, .kind = FaultKind::kCrash, .host = 1});
  EXPECT_EQ(add_one(bed), ErrorCode::kConnectionLost);
  EXPECT_EQ(bed.client().state(), EndpointState::kBroken);
  auto refused = bed.world.host(1).fabric().listen({.address = "sim://:1", .passive = true});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), ErrorCode::kClosed);
  EXPECT_EQ(add_one(bed, 1), ErrorCode::kOk);  // Others do not notice.
}

TEST(Faults, AShortPartitionOnlyDelays) {
  TestBed bed({.world = {.hosts = 3}});
  bed.world.schedule({.at = bed.now(), .kind = FaultKind::kPartition, .hosts = {1}});
  bed.world.schedule({.at = bed.now() + 10ms, .kind = FaultKind::kHeal});
  bed.world.run_for(1us);
  EXPECT_EQ(add_one(bed, 1), ErrorCode::kOk);  // The other side of the cut.
  const Instant begin = bed.now();
  EXPECT_EQ(add_one(bed, 0), ErrorCode::kOk);
  EXPECT_GE(bed.now() - begin, 9ms);
  EXPECT_EQ(counter(bed), 2u);
}

TEST(Faults, ALongPartitionBreaksTheConnectionAndHealingRestoresIt) {
  TestBed bed;
  bed.world.schedule({.at = bed.now(), .kind = FaultKind::kPartition, .hosts = {0}});
  bed.world.run_for(1us);
  EXPECT_EQ(add_one(bed), ErrorCode::kConnectionLost);
  EXPECT_EQ(bed.client().state(), EndpointState::kReconnecting);
  bed.world.schedule({.at = bed.now() + 2s, .kind = FaultKind::kHeal});
  EXPECT_EQ(add_one(bed, 0, 30s), ErrorCode::kOk);
  EXPECT_EQ(counter(bed), 1u);
}

TEST(Faults, AWriteThatWasGivenUpCanStillLand) {
  TestBed bed;
  bed.world.add_distance(0, 1, 1ms);
  std::uint64_t value = 42;
  const auto done = bed.client()
                        .write(LocalPiece::of(std::as_bytes(std::span(&value, 1))), bed.token.at(8),
                               Deadline::after(bed.world.clock(), 100us))
                        .wait();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error(), ErrorCode::kDeadlineExceeded);
  value = 7;  // E3: ours again; what is on the wire is a copy.
  std::uint64_t seen = 0;
  std::memcpy(&seen, bed.memory.data() + 8, 8);
  EXPECT_EQ(seen, 0u);
  bed.world.run_for(5ms);
  std::memcpy(&seen, bed.memory.data() + 8, 8);
  EXPECT_EQ(seen, 42u);
}

TEST(Faults, AReadThatWasGivenUpLeavesItsBufferAlone) {
  TestBed bed;
  bed.world.add_distance(0, 1, 1ms);
  std::memset(bed.memory.data(), 0xff, bed.memory.size());
  std::vector<std::byte> buffer(4096);
  const auto done =
      bed.client()
          .read(LocalPiece::of(std::span(buffer)), bed.token.at(0), Deadline::after(bed.world.clock(), 100us))
          .wait();
  ASSERT_FALSE(done);
  bed.world.run_for(10ms);
  EXPECT_EQ(buffer, std::vector<std::byte>(4096));
  EXPECT_EQ(add_one(bed), ErrorCode::kOk);  // The connection goes on.
}

TEST(Faults, ACompletionErrorFailsOneRequestOnly) {
  TestBed bed({.world = {.seed = testing::test_seed()}});
  bed.world.inject({.completion_error = 0.3});
  std::uint64_t succeeded = 0;
  for (int i = 0; i < 300; ++i) {
    const ErrorCode status = add_one(bed);
    if (status == ErrorCode::kOk) {
      ++succeeded;
    } else {
      EXPECT_EQ(status, ErrorCode::kConnectionLost);
    }
    EXPECT_EQ(bed.client().state(), EndpointState::kOpen);
  }
  // Some that failed took effect, some did not.
  EXPECT_GT(counter(bed), succeeded);
  EXPECT_LT(counter(bed), 300u);
}

TEST(Faults, ABrokenConnectionFailsAllThatIsOutstanding) {
  TestBed bed({.world = {.hosts = 3}});
  std::vector<WorkRequest> adds(10, {.op = Op::kFetchAdd, .remote = bed.token.at(0), .operand = 1});
  ASSERT_TRUE(bed.client().post(adds));
  bed.world.schedule({.at = bed.now() + 1us, .kind = FaultKind::kBreak, .host = 1});
  bed.world.run_for(10us);
  Completion done[10];
  ASSERT_EQ(bed.queue().poll(done), 10u);
  for (const Completion& completion : done) EXPECT_EQ(completion.status, ErrorCode::kConnectionLost);
  EXPECT_EQ(bed.client(1).state(), EndpointState::kOpen);
  EXPECT_EQ(add_one(bed), ErrorCode::kOk);  // Waits for the new connection.
}

TEST(Faults, ASlowHostIsSlowEverywhere) {
  TestBed bed;
  add_one(bed);
  bed.world.run_for(1us);  // The thread is done with that completion.
  const double usual = bed.time_ns([&] { return bed.client().fetch_add(bed.token.at(0), 1); });
  bed.world.schedule({.at = bed.now(), .kind = FaultKind::kSlow, .host = 0, .percent = 1000});
  bed.world.run_for(1us);
  const double slow_target = bed.time_ns([&] { return bed.client().fetch_add(bed.token.at(0), 1); });
  EXPECT_GT(slow_target, usual * 3);
  bed.world.schedule({.at = bed.now(), .kind = FaultKind::kSlow, .host = 0, .percent = 100});
  bed.world.run_for(1us);
  EXPECT_EQ(bed.time_ns([&] { return bed.client().fetch_add(bed.token.at(0), 1); }), usual);
}

// ---------------------------------------------------------------- tearing

// One client writes generations of a block, the other reads it; both halves of
// every word of a generation are its number.
struct Torn {
  int mixtures = 0;    // reads that saw two generations
  int backward = 0;    // … an older word before a newer one
  int torn_words = 0;  // words that are no generation at all
};

Torn observe(const FaultRates& rates, std::size_t words) {
  TestBed bed({.world = {.seed = testing::test_seed(), .hosts = 3}});
  bed.world.inject(rates);
  std::vector<std::uint64_t> out(words);
  std::vector<std::uint64_t> in(words);
  const LocalPiece from = LocalPiece::of(std::as_bytes(std::span(out)));
  const LocalPiece into = LocalPiece::of(std::as_writable_bytes(std::span(in)));
  const WorkRequest write{.op = Op::kWrite, .local = {&from, 1}, .remote = bed.token.at(0)};
  const WorkRequest read{.op = Op::kRead, .local = {&into, 1}, .remote = bed.token.at(0)};
  Torn seen;
  for (std::uint64_t generation = 1; generation <= 300; ++generation) {
    std::ranges::fill(out, generation << 32 | generation);
    EXPECT_TRUE(bed.client(0).post({&write, 1}));
    // At a different distance each time, so that every overlap occurs.
    bed.world.run_for(Duration((generation * 7) % 900));
    EXPECT_TRUE(bed.client(1).post({&read, 1}));
    bed.world.run_for(1ms);
    Completion done[1];
    EXPECT_EQ(bed.queue(0).poll(done), 1u);
    EXPECT_EQ(bed.queue(1).poll(done), 1u);
    seen.mixtures += std::set<std::uint64_t>(in.begin(), in.end()).size() > 1 ? 1 : 0;
    seen.backward += std::ranges::is_sorted(in, std::greater<>()) ? 0 : 1;
    for (const std::uint64_t word : in) seen.torn_words += word >> 32 == (word & 0xffffffff) ? 0 : 1;
  }
  return seen;
}

TEST(Faults, LongReadsRaceWithWritersLineByLine) {
  const Torn seen = observe({}, 512);
  EXPECT_GT(seen.mixtures, 0);
  EXPECT_EQ(seen.torn_words, 0);
}

TEST(Faults, OneLineIsNeverTornByItself) { EXPECT_EQ(observe({}, 8).mixtures, 0); }

TEST(Faults, TornReadsMixGenerationsInAnyOrderButNotWithinAWord) {
  const Torn seen = observe({.tear = 1}, 8);
  EXPECT_GT(seen.mixtures, 0);
  EXPECT_GT(seen.backward, 0);
  EXPECT_EQ(seen.torn_words, 0);
}

}  // namespace
}  // namespace yonder::fabric::sim
