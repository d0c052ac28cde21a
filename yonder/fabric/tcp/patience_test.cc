#include "yonder/fabric/tcp/internal/patience.h"

#include <gtest/gtest.h>

namespace yonder::fabric::tcp {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// Rounds in vain, a microsecond each, until it is time to sleep.
int rounds_until_sleep(Patience& patience, Instant& now) {
  patience.wake(now);
  for (int rounds = 1; rounds < 10'000; ++rounds) {
    now = now + microseconds(1);
    if (patience.is_over(now, false)) return rounds;
  }
  return -1;
}

TEST(Patience, LooksForAWhileWhenNobodyWantsTheCore) {
  Patience patience;
  Instant now = Instant::from_ns(1'000'000'000);
  EXPECT_EQ(rounds_until_sleep(patience, now), Patience::kRounds);
  EXPECT_EQ(rounds_until_sleep(patience, now), Patience::kRounds);
}

TEST(Patience, WorkStartsTheTimeAnew) {
  Patience patience;
  Instant now = Instant::from_ns(1'000'000'000);
  patience.wake(now);
  for (int i = 0; i < 1000; ++i) {
    now = now + microseconds(1);
    EXPECT_FALSE(patience.is_over(now, i % 50 == 0));
  }
}

TEST(Patience, SleepsAtOnceForAWhileAfterTheCoreWasTakenAway) {
  Patience patience;
  Instant now = Instant::from_ns(1'000'000'000);
  patience.wake(now);
  EXPECT_FALSE(patience.is_over(now, false));
  now = now + milliseconds(3);  // Somebody else's slice.
  EXPECT_TRUE(patience.is_over(now, false));
  EXPECT_EQ(rounds_until_sleep(patience, now), 1);
  now = now + Patience::kCalm;
  EXPECT_EQ(rounds_until_sleep(patience, now), Patience::kRounds);
}

TEST(Patience, ALongRoundOfWorkIsNoSignOfOthers) {
  Patience patience;
  Instant now = Instant::from_ns(1'000'000'000);
  patience.wake(now);
  EXPECT_FALSE(patience.is_over(now, true));
  now = now + milliseconds(3);
  EXPECT_FALSE(patience.is_over(now, true));
  EXPECT_EQ(rounds_until_sleep(patience, now), Patience::kRounds);
}

TEST(Patience, SleepingIsNoSignOfOthers) {
  Patience patience;
  Instant now = Instant::from_ns(1'000'000'000);
  EXPECT_EQ(rounds_until_sleep(patience, now), Patience::kRounds);
  now = now + milliseconds(500);
  EXPECT_EQ(rounds_until_sleep(patience, now), Patience::kRounds);
}

}  // namespace
}  // namespace yonder::fabric::tcp
