#pragma once
// HeapMetrics: what a far heap counts, as metrics that a Prometheus server can scrape.
//
//   auto metrics = far::HeapMetrics::create(registry, *heap);
//   metrics->update();                                    // before each scrape
//   text = telemetry::to_prometheus(registry.snapshot());
//
// The heap counts for itself (HeapStats, PagedSpaceStats), where it costs least; this carries over
// what was added since the last update. docs/heap.md, "Metrics", lists the names.
//
// Concurrency: any thread (one lock).
// Lifetime: heap and registry outlive it. Counters stay in the registry: what a later heap
// counts is added to them.

#include <cstdint>
#include <memory>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/heap/heap.h"
#include "yonder/heap/paged_space.h"
#include "yonder/sync/mutex.h"
#include "yonder/telemetry/counters.h"

namespace yonder::heap {

class HeapMetrics {
 public:
  // Errors: those of registering metrics.
  static Result<std::unique_ptr<HeapMetrics>> create(telemetry::Registry& registry, const Heap& heap);
  HeapMetrics(const HeapMetrics&) = delete;
  HeapMetrics& operator=(const HeapMetrics&) = delete;

  void update();

 private:
  // One number of a struct of statistics, and how much of it was carried over.
  template <typename Stats>
  struct Counted {
    telemetry::Counter counter;
    std::uint64_t Stats::* value;
    std::uint64_t shown = 0;
  };
  template <typename Stats>
  struct Level {
    telemetry::Gauge gauge;
    std::uint64_t Stats::* value;
  };
  template <typename Stats>
  struct Series {
    std::vector<Counted<Stats>> counted;
    std::vector<Level<Stats>> levels;
    void show(const Stats& now);
  };
  // A row of the tables in heap_metrics.cc.
  template <typename Stats>
  struct Row;

  template <typename Stats>
  static Result<void> add(telemetry::Registry& registry, const Row<Stats>& row, Series<Stats>& to);

  explicit HeapMetrics(const Heap& heap) : heap_(heap) {}

  const Heap& heap_;
  sync::Mutex mutex_;
  Series<HeapStats> objects_ YONDER_GUARDED_BY(mutex_);
  Series<PagedSpaceStats> huge_ YONDER_GUARDED_BY(mutex_);
};

}  // namespace yonder::heap
