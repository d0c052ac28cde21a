#include "yonder/telemetry/stall_detector.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace yonder::telemetry {
namespace {

using std::chrono::seconds;

class ManualClock final : public Clock {
 public:
  Instant now() const override { return now_; }
  void advance(Duration duration) { now_ = now_ + duration; }

 private:
  Instant now_ = Instant::from_ns(1);
};

class StallDetectorTest : public ::testing::Test {
 protected:
  ManualClock clock_;
  std::vector<std::string> told_;
  Duration silence_{};
  StallDetector detector_{clock_, {.limit = seconds(5), .max_workers = 2}, [this](const Stall& stall) {
                            told_.emplace_back(stall.worker);
                            silence_ = stall.silence;
                          }};
};

TEST_F(StallDetectorTest, TellsOncePerStall) {
  auto heart = detector_.register_worker("poller").value();
  heart.beat();
  clock_.advance(seconds(5));
  EXPECT_EQ(detector_.poll(), 0u) << "exactly at the limit is not late";
  clock_.advance(seconds(1));
  EXPECT_EQ(detector_.poll(), 1u);
  EXPECT_EQ(detector_.poll(), 1u);
  EXPECT_EQ(told_, std::vector<std::string>{"poller"});
  EXPECT_EQ(silence_, seconds(6));
  heart.beat();
  EXPECT_EQ(detector_.poll(), 0u);
  clock_.advance(seconds(6));
  EXPECT_EQ(detector_.poll(), 1u);
  EXPECT_EQ(told_.size(), 2u);
}

TEST_F(StallDetectorTest, LeavesRestingWorkersAlone) {
  auto never_started = detector_.register_worker("a").value();
  auto sleeping = detector_.register_worker("b").value();
  sleeping.beat();
  sleeping.rest();
  clock_.advance(seconds(100));
  EXPECT_EQ(detector_.poll(), 0u);
}

TEST_F(StallDetectorTest, ForgetsWorkersThatEnd) {
  {
    auto heart = detector_.register_worker("short").value();
    heart.beat();
  }
  clock_.advance(seconds(100));
  EXPECT_EQ(detector_.poll(), 0u);
}

TEST_F(StallDetectorTest, WorkersAreBounded) {
  const auto a = detector_.register_worker("a").value();
  std::optional b = detector_.register_worker("b").value();
  EXPECT_EQ(detector_.register_worker("c").error(), ErrorCode::kResourceExhausted);
  b.reset();
  EXPECT_TRUE(detector_.register_worker("c").has_value());
}

TEST(StallDetector, MustOutliveItsHeartbeats) {
  EXPECT_DEATH(
      {
        const ManualClock clock;
        std::optional<StallDetector> detector(std::in_place, clock, StallDetectorOptions{},
                                              [](const Stall&) {});
        const auto heart = detector->register_worker("x").value();
        detector.reset();
      },
      "before their detector");
}

}  // namespace
}  // namespace yonder::telemetry
