#include "yonder/sync/spin.h"

#include <gtest/gtest.h>

namespace yonder::sync {
namespace {

// Advances by a fixed step whenever it is asked.
class StepClock final : public Clock {
 public:
  explicit StepClock(Duration step) : step_(step) {}
  Instant now() const override {
    ++reads_;
    return now_ = now_ + step_;
  }
  int reads() const { return reads_; }

 private:
  Duration step_;
  mutable Instant now_ = Instant::from_ns(1);
  mutable int reads_ = 0;
};

TEST(AdaptiveSpinner, SpinsForItsTimeAndThenGivesUp) {
  const StepClock clock(std::chrono::microseconds(10));
  AdaptiveSpinner spinner(clock);
  int spins = 0;
  while (spinner.spin()) ++spins;
  EXPECT_EQ(clock.reads(), 6);  // One to start and five of 10 µs.
  EXPECT_EQ(spins, 5 * 16);     // It looks at the clock every 16th time.
}

TEST(AdaptiveSpinner, StartsAnewAfterARestart) {
  const StepClock clock(std::chrono::microseconds(60));
  AdaptiveSpinner spinner(clock);
  while (spinner.spin()) {
  }
  spinner.restart();
  EXPECT_TRUE(spinner.spin());
}

TEST(AdaptiveSpinner, TakesAnotherTime) {
  const StepClock clock(std::chrono::microseconds(10));
  AdaptiveSpinner spinner(clock, std::chrono::microseconds(10));
  while (spinner.spin()) {
  }
  EXPECT_EQ(clock.reads(), 2);
}

}  // namespace
}  // namespace yonder::sync
