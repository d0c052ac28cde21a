#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "yonder/sync/gate.h"

namespace yonder::sync {
namespace {

// Destroys the gate and the data as soon as wait_empty() allows it: a late leaver
// would be a use after free (ASan) or a race on the plain counter (TSan).
TEST(GateStress, NothingRunsInsideAfterTheWait) {
  for (int round = 0; round < 300; ++round) {
    auto gate = std::make_unique<Gate>();
    std::atomic<int> inside{0};
    std::atomic<bool> started{false};
    auto worker = [&, raw = gate.get()] {
      for (int i = 0; i < 200; ++i) {
        Gate::Pass pass = raw->try_enter();
        if (!pass) return;
        started = true;
        ++inside;
        --inside;
      }
    };
    // The worker that closes is the last one to use the pointer, so each worker
    // must be done with it before: refused entries return at once.
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) threads.emplace_back(worker);
    while (!started.load()) std::this_thread::yield();
    gate->close();
    ASSERT_TRUE(gate->wait_empty(Deadline::never()));
    EXPECT_EQ(inside.load(), 0);
    for (std::thread& thread : threads) thread.join();
  }
}

// The holder of the last pass is in leave() when the waiter frees the gate.
TEST(GateStress, TheGateMayGoAsSoonAsTheWaitReturns) {
  for (int round = 0; round < 2000; ++round) {
    auto gate = std::make_unique<Gate>();
    std::thread leaver([pass = gate->try_enter()]() mutable { pass.leave(); });
    gate->close();
    ASSERT_TRUE(gate->wait_empty(Deadline::never()));
    gate.reset();
    leaver.join();
  }
}

}  // namespace
}  // namespace yonder::sync
