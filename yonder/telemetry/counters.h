#pragma once
// Counters, gauges and histograms that cost next to nothing to bump.
//
// Every thread counts in cells of its own: an increment is a plain load, add and
// store on memory that no other core writes, with no locked instruction. A
// snapshot adds the cells of all threads up. When a thread ends, its cells are
// folded into the totals, so nothing is lost.
//
//   Registry registry;
//   YONDER_TRY(reads, registry.counter({.name = "yonder_fabric_reads_total", .help = "Reads posted."}));
//   reads.add();
//   for (const MetricValue& value : registry.snapshot()) …
//
// I1  A cell has one writer, the thread that holds its block; others only read it.
// I2  A block changes hands, and is folded, under the registry's mutex, which a
//     snapshot holds too: each increment is in exactly one of cell and total.
// I3  Snapshots of a counter never go down: cells only grow and folding keeps the sum.
// Relaxed everywhere: a snapshot that misses the latest increments is harmless,
// and the mutex orders what must be ordered.
//
// Concurrency: everything from any thread. Threads beyond max_threads share one
// block and add with locked instructions: slower, still exact.
// Lifetime: the registry outlives its handles' use. The thread-local cache (the
// one mutable global here: where a thread's cells are cannot be passed to every
// increment) keeps the cells alive until the thread ends.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "yonder/base/histogram.h"
#include "yonder/base/result.h"
#include "yonder/telemetry/histogram_buckets.h"
#include "yonder/telemetry/metric.h"

namespace yonder::telemetry {

namespace internal {

class RegistryCore;
using Cell = std::atomic<std::uint64_t>;

// The cells of the calling thread in the registry it used last.
struct LocalCells {
  std::uint64_t registry_id = 0;  // Never reused; 0 is no registry.
  Cell* cells = nullptr;
  bool shared = false;  // The block of all threads beyond the limit.
};
inline thread_local constinit LocalCells local_cells;

// Makes local_cells those of `core`, giving the thread a block if it has none.
void find_local_cells(RegistryCore& core, std::uint64_t registry_id);

// Where a metric's cells are: a cheap value.
struct CellRef {
  RegistryCore* core;
  std::uint64_t registry_id;
  std::size_t index;

  void add(std::size_t offset, std::uint64_t amount) const {
    if (local_cells.registry_id != registry_id) [[unlikely]]
      find_local_cells(*core, registry_id);
    Cell& cell = local_cells.cells[index + offset];
    if (local_cells.shared) [[unlikely]]
      cell.fetch_add(amount, std::memory_order_relaxed);
    else
      cell.store(cell.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);  // I1
  }
};

}  // namespace internal

// Only grows.
class Counter {
 public:
  void add(std::uint64_t amount = 1) const { cells_.add(0, amount); }

 private:
  friend class Registry;
  explicit Counter(internal::CellRef cells) : cells_(cells) {}
  internal::CellRef cells_;
};

// The current level of something. One word for all threads: set() is a plain
// store, add() a locked one; for a level that many threads move often, use two
// counters and subtract.
class Gauge {
 public:
  void set(std::int64_t value) const { value_->store(value, std::memory_order_relaxed); }
  void add(std::int64_t amount) const { value_->fetch_add(amount, std::memory_order_relaxed); }

 private:
  friend class Registry;
  explicit Gauge(std::atomic<std::int64_t>* value) : value_(value) {}
  std::atomic<std::int64_t>* value_;
};

// How values are distributed, to within a quarter of each (histogram_buckets.h).
// With Unit::kSeconds values are nanoseconds.
class HistogramMetric {
 public:
  void record(std::uint64_t value) const {
    cells_.add(histogram_bucket(value), 1);
    cells_.add(kHistogramBuckets, value);  // The sum.
  }

 private:
  friend class Registry;
  explicit HistogramMetric(internal::CellRef cells) : cells_(cells) {}
  internal::CellRef cells_;
};

// One metric at the moment of a snapshot.
struct MetricValue {
  std::string name;
  std::string help;
  std::vector<Label> labels;
  MetricType type;
  Unit unit;
  std::uint64_t counter = 0;           // kCounter
  std::int64_t gauge = 0;              // kGauge
  std::vector<std::uint64_t> buckets;  // kHistogram: kHistogramBuckets counts
  std::uint64_t sum = 0;               // kHistogram: of all values

  // kHistogram: for percentiles; each value counts as the upper end of its bucket.
  Histogram to_histogram() const;
};

struct RegistryOptions {
  std::size_t max_metrics = 1024;
  // Of each thread: a counter takes 1 cell, a histogram 157. Memory is used
  // as cells are touched, at most 8 bytes each.
  std::size_t max_cells = 16 * 1024;
  std::size_t max_threads = 256;
};

class Registry {
 public:
  explicit Registry(const RegistryOptions& options = {});
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;
  ~Registry();

  // Registers a metric, or returns the one that has this name and these labels.
  // Errors: kInvalidArgument (a rule of metric.h is broken), kAlreadyExists (the
  // name has another type, unit or help), kResourceExhausted (max_metrics or max_cells).
  Result<Counter> counter(const MetricOptions& options);
  Result<Gauge> gauge(const MetricOptions& options);
  Result<HistogramMetric> histogram(const MetricOptions& options);

  // All metrics; those of one name stand together, in the order of registration.
  std::vector<MetricValue> snapshot() const;

 private:
  std::shared_ptr<internal::RegistryCore> core_;
};

}  // namespace yonder::telemetry
