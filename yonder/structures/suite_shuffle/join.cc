// The join against the simple one: every kind, duplicates, empty sides, skew, and users'
// code that throws.
#include <stdexcept>

#include "yonder/base/distribution.h"
#include "yonder/base/prng.h"
#include "yonder/structures/suite_shuffle/join_bed.h"
#include "yonder/testing/effort.h"
#include "yonder/testing/patience.h"
#include "yonder/testing/sanitizer.h"
#include "yonder/testing/seed.h"

namespace yonder::structures::suite {
namespace {

constexpr JoinKind kKinds[] = {JoinKind::kInner, JoinKind::kLeft, JoinKind::kSemi};

// `rows` rows for each executor, keys drawn by `next`, values that tell them apart.
template <typename Next>
std::vector<Records> relation(std::uint32_t executors, std::uint64_t rows, const char* name, Next&& next) {
  std::vector<Records> parts(executors);
  for (std::uint32_t e = 0; e < executors; ++e) {
    for (std::uint64_t i = 0; i < rows; ++i) {
      parts[e].emplace_back("key" + std::to_string(next()),
                            name + std::to_string(e) + "." + std::to_string(i));
    }
  }
  return parts;
}

TEST_P(JoinSuite, EveryKindWithDuplicatesOnBothSides) {
  for (const JoinKind kind : kKinds) {
    std::uint64_t key = 0;
    run_and_check({.executors = 3,
                   .options = {.kind = kind},
                   .builds = relation(3, 60, "b", [&] { return key++ % 50; }),
                   .probes = relation(3, 80, "p", [&] { return key++ % 70; })});
  }
}

TEST_P(JoinSuite, EmptySides) {
  for (const JoinKind kind : kKinds) {
    const auto rows = relation(2, 20, "r", [key = 0]() mutable { return key++ % 7; });
    const std::vector<Records> nothing(2);
    run_and_check({.executors = 2, .options = {.kind = kind}, .builds = nothing, .probes = rows});
    run_and_check({.executors = 2, .options = {.kind = kind}, .builds = rows, .probes = nothing});
    run_and_check({.executors = 2, .options = {.kind = kind}, .builds = nothing, .probes = nothing});
  }
}

TEST_P(JoinSuite, EmptyKeysAndValuesAreKeysAndValues) {
  const std::vector<Records> builds{{{"", "x"}, {"", ""}, {"k", ""}}, {{"", "y"}}};
  const std::vector<Records> probes{{{"", ""}, {"k", "p"}}, {{"", "q"}, {"z", ""}}};
  for (const JoinKind kind : kKinds)
    run_and_check({.executors = 2, .options = {.kind = kind}, .builds = builds, .probes = probes});
}

TEST_P(JoinSuite, OneExecutorJoinsWithItself) {
  run_and_check({.executors = 1,
                 .builds = relation(1, 100, "b", [key = 0]() mutable { return key++ % 40; }),
                 .probes = relation(1, 100, "p", [key = 0]() mutable { return key++ % 60; })});
}

TEST_P(JoinSuite, OneKeyForAllRowsIsProbedWhereItsRowsAre) {
  for (const JoinKind kind : kKinds) {
    const auto same = [] { return 7; };
    const JoinOutcome outcome = run_and_check({.executors = 4,
                                               .options = {.kind = kind},
                                               .builds = relation(4, 10, "b", same),
                                               .probes = relation(4, 100, "p", same)});
    for (const auto& stats : outcome.stats) {
      ASSERT_TRUE(stats);
      EXPECT_EQ(stats->heavy_keys, 1u);
      EXPECT_EQ(stats->build_rows, 40u) << "all of them at each";
      EXPECT_EQ(stats->probe_rows, 100u) << "its own";
    }
  }
}

TEST_P(JoinSuite, WithoutASampleAllRowsOfAKeyMeetAtOneExecutor) {
  const auto same = [] { return 7; };
  const JoinOutcome outcome = run_and_check({.executors = 3,
                                             .options = {.sample_rows = 0},
                                             .builds = relation(3, 5, "b", same),
                                             .probes = relation(3, 50, "p", same)});
  std::uint64_t busy = 0;
  for (const auto& stats : outcome.stats) {
    ASSERT_TRUE(stats);
    busy += stats->probe_rows == 150 ? 1 : 0;
  }
  EXPECT_EQ(busy, 1u);
}

TEST_P(JoinSuite, SkewedProbesAreSpread) {
  Prng random(testing::test_seed());
  for (const double theta : {0.99, 1.3}) {
    const Zipfian keys({.items = 1000, .theta = theta});
    const JoinOutcome outcome =
        run_and_check({.executors = 4,
                       .options = {.build_threads = 2},
                       .builds = relation(4, 250, "b", [key = 0]() mutable { return key++; }),
                       .probes = relation(4, testing::scaled<std::uint64_t>(4000), "p",
                                          [&] { return keys.next(random); })});
    for (const auto& stats : outcome.stats) EXPECT_GT(stats.value().heavy_keys, 0u) << "theta " << theta;
  }
}

TEST_P(JoinSuite, RandomJoins) {
  Prng random(testing::test_seed());
  const std::uint64_t runs = testing::scaled<std::uint64_t>(6, 3) * testing::test_effort();
  for (std::uint64_t i = 0; i < runs; ++i) {
    JoinCase join{.executors = static_cast<std::uint32_t>(random.between(1, 4))};
    join.options.kind = kKinds[random.below(3)];
    join.options.strategy = static_cast<ShuffleStrategy>(random.below(3));
    join.options.batch_entries = static_cast<std::uint32_t>(random.between(1, 40));
    join.options.ring_bytes = std::uint64_t{1024} << random.below(6);
    join.options.build_threads = static_cast<std::uint32_t>(random.below(3));
    join.options.sample_rows = static_cast<std::uint32_t>(random.below(200));
    join.options.heavy_share = random.uniform_double();
    join.options.max_heavy_keys = static_cast<std::uint32_t>(random.below(10));
    const Zipfian build_keys({.items = 80, .theta = 0.01 + random.uniform_double()});
    const Zipfian probe_keys({.items = 100, .theta = 0.01 + random.uniform_double() * 1.5});
    join.builds = relation(join.executors, random.below(120), "b", [&] { return build_keys.next(random); });
    join.probes = relation(join.executors, random.below(200), "p", [&] { return probe_keys.next(random); });
    run_and_check(join);
    if (HasFailure()) return;
  }
}

TEST_P(JoinSuite, AnExecutorWhoseRelationThrowsEndsTheJoinEverywhere) {
  JoinCase join{.executors = 3,
                .builds = relation(3, 20, "b", [key = 0]() mutable { return key++; }),
                .probes = relation(3, 20, "p", [key = 0]() mutable { return key++; })};
  join.options.sample_rows = 0;
  fabric::Fabric& fabric = place_->server_fabric();
  auto queue = fabric.create_completion_queue({}).value();
  fabric::Scheduler scheduler(*queue);
  // All on one thread, whatever the provider: one of them throws, the others wait.
  std::vector<std::unique_ptr<JoinExecutor>> executors;
  std::vector<std::string> addresses;
  for (std::uint32_t i = 0; i < 3; ++i) {
    JoinOptions options = join.options;
    options.address = place_->listen_address();
    options.executors = 3;
    options.index = i;
    executors.push_back(JoinExecutor::create(fabric, *queue, scheduler, options).value());
    addresses.push_back(executors.back()->address());
  }
  for (const auto& executor : executors) ASSERT_TRUE(executor->connect(addresses));
  const JoinRelation good{.rows = 20, .at = [&](std::uint64_t row) { return entry_of(join.builds[0][row]); }};
  const JoinRelation bad{.rows = 20,
                         .at = [](std::uint64_t) -> ShuffleEntry { throw std::runtime_error("no"); }};
  const JoinSink sink = [](const JoinRow&) {};
  const Deadline deadline = Deadline::after(fabric.clock(), ::yonder::testing::kPatience);
  std::vector<Result<JoinStats>> stats(3, fail(ErrorCode::kClosed, "not run"));
  const auto drive = [](JoinExecutor& executor, const JoinRelation& build, const JoinRelation& probe,
                        const JoinSink& into, Deadline until, Result<JoinStats>& out) -> Task<void> {
    out = co_await executor.async_run(build, probe, into, until);
  };
  for (std::uint32_t i = 0; i < 3; ++i)
    scheduler.spawn(drive(*executors[i], i == 1 ? bad : good, good, sink, deadline, stats[i]));
  ASSERT_TRUE(scheduler.run(deadline));
  EXPECT_EQ(stats[1].error(), ErrorCode::kHandlerFailed);
  for (const std::uint32_t i : {0u, 2u}) {
    ASSERT_FALSE(stats[i]);
    EXPECT_NE(stats[i].error(), ErrorCode::kDeadlineExceeded) << "they learn it at once";
  }
  executors.clear();
}

TEST_P(JoinSuite, RefusesWhatCannotBe) {
  fabric::Fabric& fabric = place_->server_fabric();
  auto queue = fabric.create_completion_queue({}).value();
  fabric::Scheduler scheduler(*queue);
  const auto create = [&](std::uint32_t executors, std::uint32_t index) {
    return JoinExecutor::create(
        fabric, *queue, scheduler,
        {.address = place_->listen_address(), .executors = executors, .index = index});
  };
  EXPECT_EQ(create(0, 0).error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(create(2, 2).error(), ErrorCode::kInvalidArgument);
  auto executor = create(2, 0);
  ASSERT_TRUE(executor) << executor.error();
  EXPECT_EQ((*executor)->connect({}).error(), ErrorCode::kInvalidArgument);
  const JoinRelation nothing;
  const auto early =
      (*executor)->run(nothing, nothing, [](const JoinRow&) {}, Deadline::after(fabric.clock(), Duration(1)));
  EXPECT_EQ(early.error(), ErrorCode::kInvalidArgument) << "not connected";
}

}  // namespace
}  // namespace yonder::structures::suite
