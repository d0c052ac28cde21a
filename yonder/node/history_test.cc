// The checker of yonder/testing/history.h, against histories whose answer is known
// and against a brute-force twin.
#include "yonder/testing/history.h"

#include <gtest/gtest.h>

#include <numeric>

#include "yonder/base/prng.h"
#include "yonder/testing/seed.h"

namespace yonder::testing {
namespace {

using Call = HistoryCall;

HistoryEvent event(Call call, std::int64_t begin, std::int64_t end, std::uint64_t version,
                   bool failed = false) {
  return {.object = 1,
          .call = call,
          .failed = failed,
          .begin_ns = begin,
          .end_ns = end,
          .version = version,
          .fingerprint = version * 10};
}

TEST(History, AcceptsWhatOverlapsInAnyOrder) {
  EXPECT_FALSE(find_violation({event(Call::kWrite, 0, 1, 1), event(Call::kWrite, 2, 9, 2),
                               event(Call::kRead, 3, 4, 2), event(Call::kRead, 5, 8, 2)}));
  EXPECT_FALSE(find_violation(
      {event(Call::kWrite, 0, 1, 1), event(Call::kWrite, 2, 9, 2), event(Call::kRead, 3, 4, 1)}));
}

TEST(History, FindsAStaleRead) {
  EXPECT_TRUE(find_violation(
      {event(Call::kWrite, 0, 1, 1), event(Call::kWrite, 2, 3, 2), event(Call::kRead, 4, 5, 1)}));
  EXPECT_TRUE(find_violation({event(Call::kWrite, 0, 1, 1), event(Call::kWrite, 2, 9, 2),
                              event(Call::kRead, 3, 4, 2), event(Call::kRead, 5, 6, 1)}))
      << "new, then old";
}

TEST(History, FindsAReadFromTheFutureAndAnInventedValue) {
  EXPECT_TRUE(find_violation({event(Call::kRead, 0, 1, 1), event(Call::kWrite, 2, 3, 1)}));
  EXPECT_TRUE(find_violation({event(Call::kWrite, 0, 1, 1), event(Call::kRead, 2, 3, 7)}));
  HistoryEvent torn = event(Call::kRead, 2, 3, 1);
  torn.fingerprint = 11;
  EXPECT_TRUE(find_violation({event(Call::kWrite, 0, 1, 1), torn}));
}

TEST(History, FindsWritesThatLostTheirOrder) {
  EXPECT_TRUE(find_violation({event(Call::kWrite, 0, 1, 1), event(Call::kWrite, 2, 3, 1)}));
  EXPECT_TRUE(find_violation({event(Call::kWrite, 0, 1, 2), event(Call::kWrite, 2, 3, 1)}));
}

TEST(History, ChecksTheEndOfAnObject) {
  const HistoryEvent write = event(Call::kWrite, 0, 1, 1);
  const HistoryEvent end = event(Call::kEnd, 4, 6, 0);
  EXPECT_FALSE(find_violation({write, end, event(Call::kRead, 5, 7, 0, true)}));
  EXPECT_FALSE(find_violation({write, end, event(Call::kRead, 3, 5, 1)}));
  EXPECT_TRUE(find_violation({write, end, event(Call::kRead, 2, 3, 0, true)})) << "failed too early";
  EXPECT_TRUE(find_violation({write, end, event(Call::kRead, 7, 8, 1)})) << "succeeded too late";
  EXPECT_TRUE(find_violation({write, event(Call::kRead, 7, 8, 0, true)})) << "never ended";
}

// Some order of all events that respects time and makes every answer right.
bool brute_force(const std::vector<HistoryEvent>& events) {
  std::vector<std::size_t> order(events.size());
  std::iota(order.begin(), order.end(), 0u);
  do {
    bool fits = true;
    std::uint64_t version = 0;
    for (std::size_t i = 0; i < order.size() && fits; ++i) {
      const HistoryEvent& e = events[order[i]];
      for (std::size_t j = i + 1; j < order.size(); ++j)
        fits = fits && !(events[order[j]].end_ns < e.begin_ns);
      if (e.call == Call::kWrite) {
        fits = fits && e.version > version;  // A register with growing versions.
        version = e.version;
      } else {
        fits = fits && e.version == version;
      }
    }
    if (fits) return true;
  } while (std::ranges::next_permutation(order).found);
  return false;
}

TEST(History, AgreesWithABruteForceSearch) {
  Prng random(test_seed());
  int accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<HistoryEvent> events;
    const std::uint64_t writes = 1 + random.below(3);
    for (std::uint64_t v = 1; v <= writes; ++v) {
      const auto begin = static_cast<std::int64_t>(random.below(8));
      events.push_back(event(Call::kWrite, begin, begin + static_cast<std::int64_t>(random.below(5)), v));
    }
    for (std::uint64_t i = random.below(4); i > 0; --i) {
      const auto begin = static_cast<std::int64_t>(random.below(10));
      events.push_back(event(Call::kRead, begin, begin + static_cast<std::int64_t>(random.below(5)),
                             1 + random.below(writes)));
    }
    const bool expected = brute_force(events);
    accepted += expected ? 1 : 0;
    ASSERT_EQ(!find_violation(events).has_value(), expected) << find_violation(events).value_or("accepted");
  }
  EXPECT_GT(accepted, 100) << "both answers occur";
}

}  // namespace
}  // namespace yonder::testing
