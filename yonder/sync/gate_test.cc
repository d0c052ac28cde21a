#include "yonder/sync/gate.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>

namespace yonder::sync {
namespace {

Deadline in(std::chrono::milliseconds duration) {
  const auto until = std::chrono::steady_clock::now() + duration;
  return Deadline::at(Instant::from_ns(std::chrono::nanoseconds(until.time_since_epoch()).count()));
}

TEST(Gate, LetsWorkInUntilItIsClosed) {
  Gate gate;
  const Gate::Pass pass = gate.try_enter();
  EXPECT_TRUE(pass);
  EXPECT_EQ(gate.inside(), 1u);
  gate.close();
  EXPECT_TRUE(gate.is_closed());
  EXPECT_FALSE(gate.try_enter());
  EXPECT_EQ(gate.inside(), 1u);
}

TEST(Gate, WaitsForTheWorkInside) {
  Gate gate;
  Gate::Pass pass = gate.try_enter();
  gate.close();
  const Result<void> waited = gate.wait_empty(in(std::chrono::milliseconds(2)));
  EXPECT_EQ(waited.error(), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(waited.error().detail(), 1);
  pass.leave();
  EXPECT_TRUE(gate.wait_empty(in(std::chrono::milliseconds(0))));
}

TEST(Gate, AnEmptyGateIsEmptyOnceClosed) {
  Gate gate;
  EXPECT_FALSE(gate.wait_empty(in(std::chrono::milliseconds(1))).has_value());
  gate.close();
  gate.close();
  EXPECT_TRUE(gate.wait_empty(in(std::chrono::milliseconds(0))));
}

TEST(Gate, PassesMoveAndLeaveOnce) {
  Gate gate;
  Gate::Pass first = gate.try_enter();
  Gate::Pass second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): that is what is tested.
  EXPECT_EQ(gate.inside(), 1u);
  second = gate.try_enter();
  EXPECT_EQ(gate.inside(), 1u);
  second.leave();
  second.leave();
  EXPECT_EQ(gate.inside(), 0u);
}

TEST(Gate, MustBeEmptyWhenItGoes) {
  EXPECT_DEATH(
      {
        std::optional<Gate> gate(std::in_place);
        const Gate::Pass pass = gate->try_enter();
        gate.reset();
      },
      "nobody is inside");
}

}  // namespace
}  // namespace yonder::sync
