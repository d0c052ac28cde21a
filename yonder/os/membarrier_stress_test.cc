// The store-buffer litmus with the asymmetric barrier: one side stores and loads
// with only a compiler barrier between, the other issues a membarrier instead of
// a fence. With the barrier both sides never miss each other's store; without it
// they do, some hundred times in these rounds, whenever the two threads run on
// two cores.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "yonder/os/membarrier.h"

namespace yonder::os {
namespace {

constexpr int kRounds = 20'000;

struct alignas(64) Word {
  std::atomic<int> value{0};
};

struct Litmus {
  Word fast_flag;  // Stored by the fast side, loaded by the slow side.
  Word slow_flag;  // The other way round.
  Word round;      // The round both sides are in.
  Word fast_done;
  int fast_saw = 0;
};

// Yields now and then, so that the test also ends on one busy core.
void wait_for(const Word& word, int value) {
  for (int spins = 0; word.value.load(std::memory_order_acquire) < value; ++spins)
    if (spins % 1024 == 1023) std::this_thread::yield();
}

void delay(int steps) {
  std::atomic<int> counted{0};
  while (counted.load(std::memory_order_relaxed) < steps)
    counted.store(counted + 1, std::memory_order_relaxed);
}

// Brings the other side's line into this core's cache, so that the load of the
// litmus is quick and the store of its owner slow: the case that goes wrong.
void warm(const Word& word) { (void)word.value.load(std::memory_order_relaxed); }

void fast_side(Litmus& litmus) {
  for (int round = 1; round <= kRounds; ++round) {
    warm(litmus.slow_flag);
    wait_for(litmus.round, round);
    litmus.fast_flag.value.store(round, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    litmus.fast_saw = litmus.slow_flag.value.load(std::memory_order_relaxed);
    litmus.fast_done.value.store(round, std::memory_order_release);
  }
}

TEST(MembarrierStress, TheFastSideNeedsNoFence) {
  const Result<Membarrier> barrier = Membarrier::create(Membarrier::Scope::kPrivate);
  if (!barrier) GTEST_SKIP() << "the kernel has no private expedited membarrier";
  Litmus litmus;
  std::thread fast(fast_side, std::ref(litmus));
  int both_missed = 0;
  for (int round = 1; round <= kRounds; ++round) {
    warm(litmus.fast_flag);
    litmus.round.value.store(round, std::memory_order_release);
    // The fast side learns of the round 75 to 500 ns later; a sweep of delays
    // makes the two stores meet in some of the rounds.
    delay(round % 512);
    litmus.slow_flag.value.store(round, std::memory_order_relaxed);
    barrier->issue();
    const bool slow_missed = litmus.fast_flag.value.load(std::memory_order_relaxed) != round;
    wait_for(litmus.fast_done, round);
    both_missed += slow_missed && litmus.fast_saw != round ? 1 : 0;
  }
  fast.join();
  EXPECT_EQ(both_missed, 0);
}

}  // namespace
}  // namespace yonder::os
