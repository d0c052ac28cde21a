#include "yonder/fabric/tcp/internal/binding.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace yonder::fabric::tcp {
namespace {

TEST(Binding, FollowsItsTableOfStates) {
  std::byte memory[8];
  Binding binding(memory, Rights::kRead, TenantId{0});
  EXPECT_TRUE(binding.touch_for_new_request());
  EXPECT_TRUE(binding.touch_again());
  binding.retire();
  EXPECT_FALSE(binding.touch_for_new_request());
  EXPECT_TRUE(binding.touch_again());
  binding.kill();
  EXPECT_FALSE(binding.touch_for_new_request());
  EXPECT_FALSE(binding.touch_again());
}

TEST(Binding, KillWaitsForWhoeverTouches) {
  std::byte memory[8];
  Binding binding(memory, Rights::kRead, TenantId{0});
  std::atomic<bool> killed{false};
  std::thread killer;
  {
    const Binding::Touch touch = binding.touch_for_new_request();
    killer = std::thread([&] {
      binding.kill();
      killed = true;
    });
    while (binding.touch_again()) std::this_thread::yield();  // Until the mark is seen.
    EXPECT_FALSE(killed);
  }
  killer.join();
  EXPECT_TRUE(killed);
}

TEST(Binding, WaitsForRequestsUnderWayOnlyForItsGrace) {
  std::byte memory[8];
  Binding binding(memory, Rights::kRead, TenantId{0});
  {
    const Binding::Touch touch = binding.touch_for_new_request();
    binding.begin_request();
  }
  binding.retire();
  binding.await_idle(std::chrono::milliseconds(1));  // Returns although one is under way.
  std::thread ender([&] { binding.end_request(); });
  binding.await_idle(std::chrono::hours(1));  // Returns because it ends.
  ender.join();
}

}  // namespace
}  // namespace yonder::fabric::tcp
