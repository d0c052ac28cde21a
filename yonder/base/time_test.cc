#include "yonder/base/time.h"

#include <gtest/gtest.h>

namespace yonder {
namespace {

using namespace std::chrono_literals;

class FixedClock : public Clock {
 public:
  explicit FixedClock(std::int64_t ns) : now_(Instant::from_ns(ns)) {}
  Instant now() const override { return now_; }

 private:
  Instant now_;
};

TEST(Instant, AddsAndSubtractsNanoseconds) {
  const Instant start = Instant::from_ns(1000);
  EXPECT_EQ((start + 5us).ns(), 6000);
  EXPECT_EQ((start + 5us) - start, 5us);
  EXPECT_LT(start, start + 1ns);
}

TEST(Instant, SaturatesInsteadOfWrapping) {
  const Instant late = Instant::from_ns(INT64_MAX - 5);
  EXPECT_EQ((late + 1h).ns(), INT64_MAX);
  EXPECT_EQ((Instant::from_ns(INT64_MIN + 5) + -1h).ns(), 0);
}

TEST(Deadline, DefaultNeverPassesAndYieldsToAnother) {
  const Deadline none;
  EXPECT_TRUE(none.is_default());
  EXPECT_FALSE(none.passed(Instant::from_ns(INT64_MAX)));
  const Deadline configured = Deadline::at(Instant::from_ns(50));
  EXPECT_EQ(none.or_default(configured), configured);
  EXPECT_EQ(configured.or_default(Deadline::never()), configured);
  EXPECT_EQ(Deadline::earlier(configured, Deadline::never()), configured);
  EXPECT_EQ(Deadline::earlier(Deadline::never(), configured), configured);
  EXPECT_EQ(Deadline::earlier(none, configured), configured);
  EXPECT_EQ(Deadline::earlier(configured, none), configured);
}

TEST(Deadline, PassesAtItsInstant) {
  const FixedClock clock(1000);
  const Deadline deadline = Deadline::after(clock, 20ns);
  EXPECT_EQ(deadline.instant().ns(), 1020);
  EXPECT_FALSE(deadline.passed(Instant::from_ns(1019)));
  EXPECT_TRUE(deadline.passed(Instant::from_ns(1020)));
}

TEST(Deadline, AnEndlessDurationIsNever) {
  const FixedClock clock(1000);
  EXPECT_EQ(Deadline::after(clock, Duration::max()), Deadline::never());
  EXPECT_FALSE(Deadline::never().is_default());
  EXPECT_FALSE(Deadline::never().passed(Instant::from_ns(INT64_MAX - 1)));
}

}  // namespace
}  // namespace yonder
