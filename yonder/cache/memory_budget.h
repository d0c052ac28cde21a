#pragma once
// MemoryBudget: the memory limit of a process (-m), shared by its partitions.
//
// Partitions take shares in chunks, so that the common allocation asks nobody. The limit
// may change while the cache runs; below what is taken the budget is overdrawn, nobody
// gets more, and partitions are asked to shrink.
//
// Concurrency: any thread. Lifetime: outlives the partitions.

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace yonder::cache {

class MemoryBudget {
 public:
  static constexpr std::size_t kChunk = std::size_t{32} << 10;
  static constexpr std::size_t in_chunks(std::size_t bytes) { return (bytes + kChunk - 1) / kChunk * kChunk; }

  explicit MemoryBudget(std::size_t limit)
      : limit_(static_cast<std::int64_t>(limit)), left_(static_cast<std::int64_t>(limit)) {}

  // All or nothing.
  bool try_take(std::size_t bytes) {
    const auto wanted = static_cast<std::int64_t>(bytes);
    // relaxed: the number alone matters; memory is protected by the partitions' locks.
    std::int64_t left = left_.load(std::memory_order_relaxed);
    while (left >= wanted) {
      if (left_.compare_exchange_weak(left, left - wanted, std::memory_order_relaxed)) return true;
    }
    return false;
  }
  // For memory that is in use already, as of a partition that arrived: may overdraw.
  void take(std::size_t bytes) {
    left_.fetch_sub(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
  }
  void give(std::size_t bytes) {
    left_.fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
  }

  void set_limit(std::size_t limit) {
    const auto wanted = static_cast<std::int64_t>(limit);
    left_.fetch_add(wanted - limit_.exchange(wanted, std::memory_order_relaxed), std::memory_order_relaxed);
  }
  std::size_t limit() const { return static_cast<std::size_t>(limit_.load(std::memory_order_relaxed)); }
  // How far the limit is exceeded.
  std::size_t overdrawn() const {
    const std::int64_t left = left_.load(std::memory_order_relaxed);
    return left < 0 ? static_cast<std::size_t>(-left) : 0;
  }

 private:
  std::atomic<std::int64_t> limit_;
  std::atomic<std::int64_t> left_;
};

}  // namespace yonder::cache
