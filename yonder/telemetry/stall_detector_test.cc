#include "yonder/telemetry/stall_detector.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "yonder/os/eventfd.h"
#include "yonder/os/memfd.h"
#include "yonder/os/steady_clock.h"
#include "yonder/telemetry/stall_watch.h"
#include "yonder/telemetry/trace_log.h"

namespace yonder::telemetry {
namespace {

using std::chrono::seconds;

class ManualClock final : public Clock {
 public:
  Instant now() const override { return now_; }
  void advance(Duration duration) { now_ = now_ + duration; }

 private:
  Instant now_;
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

// Stops by itself: the clock is the machine's, the worker never beats again.
TEST(StallWatch, DumpsTheTraceOfAStalledThread) {
  const os::SteadyClock clock;
  TraceLog log(clock, {});
  auto trace = log.register_thread("stuck").value();
  trace.record(3, 14, 15);
  const os::Memfd out = os::Memfd::create({.size = 4096}).value();
  const os::EventFd dumped = os::EventFd::create().value();
  StallDetector detector(clock, {.limit = std::chrono::milliseconds(1)}, [&](const Stall& stall) {
    EXPECT_EQ(stall.worker, "stuck");
    log.dump(out.fd().get());
    dumped.ring();
  });
  {
    auto heart = detector.register_worker("stuck").value();
    heart.beat();
    const StallWatch watch = StallWatch::start(detector, std::chrono::milliseconds(1)).value();
    ASSERT_TRUE(dumped.wait(Deadline::after(clock, seconds(30))));
  }
  std::array<char, 128> text{};
  ASSERT_GT(::pread(out.fd().get(), text.data(), text.size() - 1, 0), 0);
  EXPECT_NE(std::string_view(text.data()).find("event 3 a=14 b=15"), std::string_view::npos) << text.data();
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
