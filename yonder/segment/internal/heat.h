#pragma once
// Heat: where touches are dense. The table of a hash map is touched by every get, its nodes
// each by one in thousands: what is touched far more often than the average is worth pulling
// at once, the rest is not.
//
// Concurrency: any thread; counts are hints. Lifetime: a value of an Arrival.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace yonder::segment::internal {

class Heat {
 public:
  static constexpr std::size_t kRegionPages = 256;  // 1 MiB

  explicit Heat(std::size_t pages)
      : regions_((pages + kRegionPages - 1) / kRegionPages),
        counts_(std::make_unique<std::atomic<std::uint32_t>[]>(regions_)) {}

  // Notes a touch of a page that was not there; whether its surroundings are hot.
  bool note(std::size_t page) {
    // relaxed: hints.
    const std::uint64_t all = all_.fetch_add(1, std::memory_order_relaxed) + 1;
    const std::uint64_t here =
        counts_[page / kRegionPages].fetch_add(1, std::memory_order_relaxed) + std::uint64_t{1};
    return here >= kLeast && here * regions_ >= kTimesAverage * all;
  }

 private:
  static constexpr std::uint64_t kLeast = 3;
  static constexpr std::uint64_t kTimesAverage = 4;

  const std::size_t regions_;
  const std::unique_ptr<std::atomic<std::uint32_t>[]> counts_;
  std::atomic<std::uint64_t> all_{0};
};

}  // namespace yonder::segment::internal
