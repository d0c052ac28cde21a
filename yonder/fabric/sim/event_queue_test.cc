#include "yonder/fabric/sim/internal/event_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/testing/seed.h"

namespace yonder::fabric::sim {
namespace {

TEST(EventQueue, EventsLeaveByTimeAndThenByArrival) {
  EventQueue queue;
  queue.push(ns(2), EventKind::kStep, {1, 1});
  queue.push(ns(1), EventKind::kStep, {2, 1});
  queue.push(ns(2), EventKind::kStep, {3, 1});
  queue.push(ns(1), EventKind::kStep, {4, 1});
  std::vector<std::uint32_t> order;
  while (!queue.empty()) order.push_back(queue.pop().subject.slot);
  EXPECT_EQ(order, (std::vector<std::uint32_t>{2, 4, 1, 3}));
}

TEST(EventQueue, AgreesWithASortUnderRandomUse) {
  Prng random(testing::test_seed());
  EventQueue queue;
  std::vector<std::pair<Ticks, std::uint32_t>> twin;  // Sorted, stable by arrival.
  for (std::uint32_t i = 0; i < 20'000; ++i) {
    if (!twin.empty() && random.chance(0.48)) {
      EXPECT_EQ(queue.next_at(), twin.front().first);
      const Event event = queue.pop();
      ASSERT_EQ(event.at, twin.front().first);
      ASSERT_EQ(event.argument, twin.front().second);
      twin.erase(twin.begin());
    } else {
      const auto at = static_cast<Ticks>(random.below(50));
      queue.push(at, EventKind::kDrain, {}, i);
      const auto later = [](Ticks value, const auto& entry) { return value < entry.first; };
      twin.insert(std::upper_bound(twin.begin(), twin.end(), at, later), {at, i});
    }
    ASSERT_EQ(queue.size(), twin.size());
  }
}

}  // namespace
}  // namespace yonder::fabric::sim
