#pragma once
// What the tests of the heap share: heaps that are far too small, and somebody who shakes them.
//
// Concurrency: one thread makes and destroys them.
// Lifetime: the heap outlives containers and shakers.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "yonder/heap/heap.h"

namespace yonder::heap {

// Local memory of the smallest heap there may be: twenty times as much data is five percent.
inline constexpr std::size_t kSmallHeapBytes = std::size_t{64} * 4096;
inline constexpr std::size_t kMuchDataBytes = 20 * kSmallHeapBytes;

// Sizes that are not given are small ones.
inline std::unique_ptr<Heap> make_heap(HeapOptions options = {}) {
  if (options.local == HeapOptions{}.local) options.local = Bytes(kSmallHeapBytes);
  if (options.far == HeapOptions{}.far) options.far = Bytes(std::uint64_t{32} << 20);
  auto heap = Heap::create(options);
  EXPECT_TRUE(heap) << heap.error().to_string();
  return std::move(*heap);
}

// Everything moves: every page with garbage is worth emptying.
inline std::unique_ptr<Heap> make_small_heap(Mode mode) {
  return make_heap({.far = Bytes(std::uint64_t{64} << 20), .mode = mode, .evacuate_below = 1.0});
}

// With memory for huge objects, of which five percent are local.
inline std::unique_ptr<Heap> make_huge_heap() {
  return make_heap({.huge = Bytes(kMuchDataBytes), .huge_local = Bytes(kSmallHeapBytes)});
}

// Has a constructor that throws if it is told to.
struct Thrower {
  explicit Thrower(bool throws) {
    if (throws) throw std::runtime_error("no");
  }
  std::uint64_t value = 3;
};

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
