#pragma once
// What the tests of containers share: a heap that is far too small, and somebody who shakes it.
//
// Concurrency: one thread makes and destroys them.
// Lifetime: the heap outlives containers and shakers.

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "yonder/heap/heap.h"

namespace yonder::heap {

// Local memory of the smallest heap there may be: twenty times as much data is five percent.
inline constexpr std::size_t kSmallHeapBytes = std::size_t{64} * 4096;
inline constexpr std::size_t kMuchDataBytes = 20 * kSmallHeapBytes;

// Everything moves: every page with garbage is worth emptying.
inline std::unique_ptr<Heap> make_small_heap(Mode mode) {
  auto heap = Heap::create({.local = Bytes(kSmallHeapBytes),
                            .far = Bytes(std::uint64_t{64} << 20),
                            .mode = mode,
                            .evacuate_below = 1.0});
  EXPECT_TRUE(heap) << heap.error().to_string();
  return std::move(*heap);
}

// Empties pages without rest while it lives.
class Shaker {
 public:
  explicit Shaker(Heap& heap)
      : thread_([this, &heap] {
          while (!stop_.load(std::memory_order_relaxed)) {
            heap.evacuate();
            std::this_thread::yield();
          }
        }) {}
  ~Shaker() {
    stop_.store(true, std::memory_order_relaxed);
    thread_.join();
  }
  Shaker(const Shaker&) = delete;
  Shaker& operator=(const Shaker&) = delete;

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

inline std::string name_of_mode(const ::testing::TestParamInfo<Mode>& test) {
  return test.param == Mode::kHybrid ? "hybrid" : test.param == Mode::kPaging ? "paging" : "object";
}
inline auto all_modes() { return ::testing::Values(Mode::kHybrid, Mode::kPaging, Mode::kObject); }

}  // namespace yonder::heap
