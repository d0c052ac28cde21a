// The scheduler and memory model on which the model tests of this folder stand:
// it must find the classic errors, repeat a run from its seed, and not invent
// behaviour that no machine has.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

#include "yonder/testing/deterministic_scheduler.h"
#include "yonder/testing/seed.h"

namespace yonder::testing {
namespace {

constexpr int kSeeds = 400;

// Store buffering: both threads store, then load the other's word.
std::pair<int, int> store_buffer_run(std::uint64_t seed, bool fenced) {
  SimAtomic<int> x{0};
  SimAtomic<int> y{0};
  int saw_y = -1;
  int saw_x = -1;
  DeterministicScheduler(seed).run({[&] {
                                      x.store(1, std::memory_order_relaxed);
                                      if (fenced) SimAtomics::full_fence();
                                      saw_y = y.load(std::memory_order_relaxed);
                                    },
                                    [&] {
                                      y.store(1, std::memory_order_relaxed);
                                      if (fenced) SimAtomics::full_fence();
                                      saw_x = x.load(std::memory_order_relaxed);
                                    }});
  return {saw_y, saw_x};
}

template <typename Run>
auto outcomes(Run run) {
  std::set<decltype(run(0))> seen;
  for (int i = 0; i < kSeeds; ++i) seen.insert(run(test_seed() + static_cast<std::uint64_t>(i)));
  return seen;
}

TEST(Scheduler, FindsThatStoresMayPassLoads) {
  const auto seen = outcomes([](std::uint64_t seed) { return store_buffer_run(seed, false); });
  EXPECT_TRUE(seen.contains({0, 0}));
}

TEST(Scheduler, FencesForbidIt) {
  const auto seen = outcomes([](std::uint64_t seed) { return store_buffer_run(seed, true); });
  EXPECT_FALSE(seen.contains({0, 0}));
  // Both orders must have been tried, or the absence means nothing.
  EXPECT_TRUE(seen.contains({0, 1}) && seen.contains({1, 0}));
}

// Message passing: the flag is seen; is the payload behind it?
std::string message_run(std::uint64_t seed, std::memory_order order) {
  SimAtomic<int> payload{0};
  SimAtomic<int> flag{0};
  std::string seen = "no flag";
  DeterministicScheduler(seed).run({[&] {
                                      payload.store(1, std::memory_order_relaxed);
                                      flag.store(1, order);
                                    },
                                    [&] {
                                      int looks = 0;
                                      while (flag.load(std::memory_order_acquire) == 0)
                                        if (++looks == 50) return;
                                      seen =
                                          payload.load(std::memory_order_relaxed) == 1 ? "payload" : "torn";
                                    }});
  return seen;
}

TEST(Scheduler, FindsAMissingRelease) {
  EXPECT_TRUE(outcomes([](std::uint64_t seed) {
                return message_run(seed, std::memory_order_relaxed);
              }).contains("torn"));
}

TEST(Scheduler, AReleaseCarriesThePayload) {
  const auto seen = outcomes([](std::uint64_t seed) { return message_run(seed, std::memory_order_release); });
  EXPECT_EQ(seen, (std::set<std::string>{"no flag", "payload"}));
}

TEST(Scheduler, AtomicIncrementsAreNeverLostAndPlainOnesAre) {
  auto run = [](std::uint64_t seed, bool atomic) {
    SimAtomic<std::uint64_t> count{0};
    auto body = [&] {
      for (int i = 0; i < 3; ++i) {
        if (atomic)
          count.fetch_add(1);
        else
          count.store(count.load() + 1);
      }
    };
    DeterministicScheduler(seed).run({body, body});
    return count.load();
  };
  EXPECT_EQ(outcomes([&](std::uint64_t seed) { return run(seed, true); }), std::set<std::uint64_t>{6});
  EXPECT_GT(outcomes([&](std::uint64_t seed) { return run(seed, false); }).size(), 1u);
}

TEST(Scheduler, OneSeedGivesOneRun) {
  auto history = [](std::uint64_t seed) {
    std::string text;
    SimAtomic<int> word{0};
    auto body = [&](char name) {
      for (int i = 0; i < 10; ++i) {
        word.store(i, std::memory_order_relaxed);
        text += name;
      }
    };
    DeterministicScheduler(seed).run({[&] { body('a'); }, [&] { body('b'); }, [&] { body('c'); }});
    return text;
  };
  EXPECT_EQ(history(7), history(7));
  EXPECT_NE(history(7), history(8));
}

TEST(Scheduler, AThreadSeesItsOwnStores) {
  SimAtomic<int> word{0};
  DeterministicScheduler scheduler(test_seed());
  scheduler.run({[&] {
    for (int i = 1; i < 20; ++i) {
      word.store(i, std::memory_order_relaxed);
      EXPECT_EQ(word.load(std::memory_order_relaxed), i);
    }
  }});
  EXPECT_EQ(word.load(), 19);
  EXPECT_GT(scheduler.steps(), 0u);
}

}  // namespace
}  // namespace yonder::testing
