#pragma once
// The part of a Registry that threads keep alive: metrics, blocks and totals.
//
// Concurrency: any thread; one mutex for all but the cells and gauges themselves.
// Lifetime: shared by the Registry and every thread that holds a block of it, so
// that a thread that ends after the registry can still give its block back.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "yonder/os/mapping.h"
#include "yonder/sync/mutex.h"
#include "yonder/telemetry/counters.h"

namespace yonder::telemetry::internal {

class RegistryCore : public std::enable_shared_from_this<RegistryCore> {
 public:
  explicit RegistryCore(const RegistryOptions& options);

  // Finds or makes the metric; its first cell, or its index among the gauges.
  Result<std::size_t> add_metric(const MetricOptions& options, MetricType type) YONDER_EXCLUDES(mutex_);
  std::atomic<std::int64_t>* gauge_at(std::size_t index) YONDER_EXCLUDES(mutex_);
  std::vector<MetricValue> snapshot() const YONDER_EXCLUDES(mutex_);

  // A block for the calling thread, or null if there are max_threads or no memory.
  Cell* take_block() YONDER_EXCLUDES(mutex_);
  // Folds the block into the totals (I2) and keeps it for the next thread.
  void give_back(Cell* block) YONDER_EXCLUDES(mutex_);
  // For threads that got none; added to with locked instructions.
  Cell* shared_block() { return shared_block_.get(); }

  std::uint64_t id() const { return id_; }
  void close() { closed_.store(true, std::memory_order_relaxed); }
  // True once the registry is gone: threads drop their blocks when they notice.
  bool is_closed() const { return closed_.load(std::memory_order_relaxed); }

 private:
  struct Metric {
    MetricOptions options;
    MetricType type;
    std::size_t index;
  };

  const Metric* find(const MetricOptions& options) const YONDER_REQUIRES(mutex_);
  Result<void> check_family(const MetricOptions& options, MetricType type) const YONDER_REQUIRES(mutex_);
  Result<std::size_t> take_cells(std::size_t count) YONDER_REQUIRES(mutex_);
  std::uint64_t sum_of(std::size_t cell) const YONDER_REQUIRES(mutex_);
  MetricValue value_of(const Metric& metric) const YONDER_REQUIRES(mutex_);

  const RegistryOptions options_;
  const std::uint64_t id_;
  std::atomic<bool> closed_{false};
  const std::unique_ptr<Cell[]> shared_block_;

  mutable sync::Mutex mutex_;
  std::vector<Metric> metrics_ YONDER_GUARDED_BY(mutex_);
  std::deque<std::atomic<std::int64_t>> gauges_ YONDER_GUARDED_BY(mutex_);  // A deque: addresses stay.
  std::size_t used_cells_ YONDER_GUARDED_BY(mutex_) = 0;
  std::vector<std::uint64_t> totals_ YONDER_GUARDED_BY(mutex_);  // Of threads that ended.
  std::vector<os::Mapping> blocks_ YONDER_GUARDED_BY(mutex_);    // One per thread; pages appear when touched.
  std::vector<Cell*> free_blocks_ YONDER_GUARDED_BY(mutex_);
};

}  // namespace yonder::telemetry::internal
