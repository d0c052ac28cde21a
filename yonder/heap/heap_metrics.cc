#include "yonder/heap/heap_metrics.h"

#include <string>
#include <utility>

namespace yonder::heap {

using telemetry::MetricType;
using telemetry::Unit;

template <typename Stats>
struct HeapMetrics::Row {
  const char* name;
  const char* help;
  std::uint64_t Stats::* value;
  const char* label = nullptr;
  const char* label_value = nullptr;
  Unit unit = Unit::kNone;
  MetricType type = MetricType::kCounter;
};

template <typename Stats>
Result<void> HeapMetrics::add(telemetry::Registry& registry, const Row<Stats>& row, Series<Stats>& to) {
  telemetry::MetricOptions options{.name = row.name, .help = row.help, .labels = {}, .unit = row.unit};
  if (row.label != nullptr) options.labels.push_back({row.label, row.label_value});
  if (row.type == MetricType::kGauge) {
    YONDER_TRY(gauge, registry.gauge(options));
    to.levels.push_back({.gauge = gauge, .value = row.value});
  } else {
    YONDER_TRY(counter, registry.counter(options));
    to.counted.push_back({.counter = counter, .value = row.value});
  }
  return {};
}

template <typename Stats>
void HeapMetrics::Series<Stats>::show(const Stats& now) {
  for (Counted<Stats>& one : counted) {
    const std::uint64_t value = now.*one.value;
    if (value > one.shown) one.counter.add(value - one.shown);
    one.shown = value;
  }
  for (const Level<Stats>& one : levels) one.gauge.set(static_cast<std::int64_t>(now.*one.value));
}

Result<std::unique_ptr<HeapMetrics>> HeapMetrics::create(telemetry::Registry& registry, const Heap& heap) {
  using Of = HeapStats;
  constexpr auto kFetches = "Pages and objects that came in, by path; read_ahead came unasked.";
  constexpr auto kEvictions = "What left local memory: pages written, clean pages dropped, single objects.";
  constexpr auto kFlips = "Pages whose next way in was changed when they left.";
  static constexpr Row<Of> kObjects[] = {
      {"yonder_heap_hits_total", "Dereferences that found their object here and had something to note.",
       &Of::hits},
      {"yonder_heap_fetches_total", kFetches, &Of::page_ins, "path", "page"},
      {"yonder_heap_fetches_total", kFetches, &Of::object_ins, "path", "object"},
      {"yonder_heap_fetches_total", kFetches, &Of::read_ahead, "path", "read_ahead"},
      {"yonder_heap_page_copies_total", "Pages that were read for one object, to place its neighbours from.",
       &Of::page_copies},
      {"yonder_heap_objects_from_copies_total", "Objects that came in from such a copy, without the network.",
       &Of::objects_from_copies},
      {"yonder_heap_objects_ahead_total", "Objects that a hint asked for before they were needed.",
       &Of::objects_ahead},
      {"yonder_heap_objects_ahead_used_total",
       "Objects that came in because of such a hint, without a wait of their own.", &Of::objects_ahead_used},
      {"yonder_heap_read_ahead_used_total", "Pages that came unasked and were used.", &Of::read_ahead_used},
      {"yonder_heap_fetched_bytes_total", "Bytes that came in, by all ways.", &Of::bytes_in, nullptr, nullptr,
       Unit::kBytes},
      {"yonder_heap_wanted_bytes_total", "Bytes of the objects that were asked for and not here.",
       &Of::bytes_wanted, nullptr, nullptr, Unit::kBytes},
      {"yonder_heap_evictions_total", kEvictions, &Of::pages_written, "what", "written_page"},
      {"yonder_heap_evictions_total", kEvictions, &Of::pages_dropped, "what", "dropped_page"},
      {"yonder_heap_evictions_total", kEvictions, &Of::objects_written, "what", "object"},
      {"yonder_heap_flips_total", kFlips, &Of::flips_to_page, "to", "page"},
      {"yonder_heap_flips_total", kFlips, &Of::flips_to_object, "to", "object"},
      {"yonder_heap_evacuated_pages_total", "Pages that were emptied of what garbage had left.",
       &Of::evacuated_pages},
      {"yonder_heap_healed_pointers_total", "Pointers that were led to an object that had moved.",
       &Of::healed},
      {"yonder_heap_stalls_total", "Waits for a free frame.", &Of::stalls},
      {"yonder_heap_egress_seconds_total", "Processor time spent on making room, by all threads.",
       &Of::egress_ns, nullptr, nullptr, Unit::kSeconds},
      {"yonder_heap_local_bytes", "The local budget.", &Of::local_bytes, nullptr, nullptr, Unit::kBytes,
       MetricType::kGauge},
      {"yonder_heap_free_bytes", "Local memory that holds nothing.", &Of::free_bytes, nullptr, nullptr,
       Unit::kBytes, MetricType::kGauge},
      {"yonder_heap_live_pages", "Pages of far memory in use.", &Of::live_pages, nullptr, nullptr,
       Unit::kNone, MetricType::kGauge},
      {"yonder_heap_metadata_bytes", "Memory of the heap's own tables.", &Of::metadata_bytes, nullptr,
       nullptr, Unit::kBytes, MetricType::kGauge},
  };
  using Huge = PagedSpaceStats;
  constexpr auto kFaults = "Page faults of huge objects: the page was not here, or not writable.";
  static constexpr Row<Huge> kHuge[] = {
      {"yonder_heap_huge_faults_total", kFaults, &Huge::faults, "kind", "missing"},
      {"yonder_heap_huge_faults_total", kFaults, &Huge::write_faults, "kind", "write"},
      {"yonder_heap_huge_fetched_pages_total", "Pages of huge objects that came from the node.",
       &Huge::fetched_pages},
      {"yonder_heap_huge_ahead_pages_total", "Of those, pages that came ahead of a stream.",
       &Huge::ahead_pages},
      {"yonder_heap_huge_fresh_pages_total", "Pages of huge objects that were touched for the first time.",
       &Huge::fresh_pages},
      {"yonder_heap_huge_left_pages_total", "Pages of huge objects that left.", &Huge::left_pages},
      {"yonder_heap_huge_written_pages_total", "Pages of huge objects that were written to the node.",
       &Huge::written_pages},
      {"yonder_heap_huge_stalls_total", "Faults of huge objects that had to make room first.", &Huge::stalls},
      {"yonder_heap_huge_resident_bytes", "Local memory of huge objects.", &Huge::resident_bytes, nullptr,
       nullptr, Unit::kBytes, MetricType::kGauge},
      {"yonder_heap_huge_budget_bytes", "How much of it there may be.", &Huge::budget_bytes, nullptr, nullptr,
       Unit::kBytes, MetricType::kGauge},
  };
  std::unique_ptr<HeapMetrics> metrics(new HeapMetrics(heap));
  const sync::LockGuard lock(metrics->mutex_);
  for (const auto& row : kObjects) YONDER_TRY_VOID(add(registry, row, metrics->objects_));
  for (const auto& row : kHuge) YONDER_TRY_VOID(add(registry, row, metrics->huge_));
  return metrics;
}

void HeapMetrics::update() {
  const sync::LockGuard lock(mutex_);  // Held while asking: what is shown never goes back.
  objects_.show(heap_.stats());
  huge_.show(heap_.huge_stats());
}

}  // namespace yonder::heap
