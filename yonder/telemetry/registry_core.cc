#include "yonder/telemetry/internal/registry_core.h"

#include <algorithm>
#include <new>

namespace yonder::telemetry::internal {
namespace {

// Registries are told apart by a number that is never reused: an address could be.
std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

std::size_t cells_of(MetricType type) { return type == MetricType::kHistogram ? kHistogramBuckets + 1 : 1; }

Cell* cells_in(const os::Mapping& block) { return reinterpret_cast<Cell*>(block.data()); }

}  // namespace

// Blocks are fresh zeroed pages used as cells without running constructors.
static_assert(sizeof(Cell) == 8 && Cell::is_always_lock_free);

RegistryCore::RegistryCore(const RegistryOptions& options)
    : options_(options),
      id_(next_id()),
      shared_block_(std::make_unique<Cell[]>(options.max_cells)),
      totals_(options.max_cells) {}

const RegistryCore::Metric* RegistryCore::find(const MetricOptions& options) const {
  const auto same = [&](const Metric& metric) {
    return metric.options.name == options.name && metric.options.labels == options.labels;
  };
  const auto found = std::ranges::find_if(metrics_, same);
  return found == metrics_.end() ? nullptr : &*found;
}

// All metrics of one name share type, unit and help: Prometheus shows them once.
Result<void> RegistryCore::check_family(const MetricOptions& options, MetricType type) const {
  for (const Metric& metric : metrics_) {
    if (metric.options.name != options.name) continue;
    if (metric.type != type || metric.options.unit != options.unit || metric.options.help != options.help)
      return fail(ErrorCode::kAlreadyExists, "metric of another type, unit or help has this name");
  }
  return {};
}

Result<std::size_t> RegistryCore::take_cells(std::size_t count) {
  if (count > options_.max_cells - used_cells_)
    return fail(ErrorCode::kResourceExhausted, "metric cells", static_cast<std::int64_t>(options_.max_cells));
  const std::size_t first = used_cells_;
  used_cells_ += count;
  return first;
}

Result<std::size_t> RegistryCore::add_metric(const MetricOptions& options, MetricType type) {
  YONDER_TRY_VOID(validate(options, type));
  const sync::LockGuard lock(mutex_);
  YONDER_TRY_VOID(check_family(options, type));
  if (const Metric* const found = find(options)) return found->index;
  if (metrics_.size() == options_.max_metrics)
    return fail(ErrorCode::kResourceExhausted, "metrics", static_cast<std::int64_t>(options_.max_metrics));
  std::size_t index = gauges_.size();
  if (type == MetricType::kGauge) {
    gauges_.emplace_back(0);
  } else {
    YONDER_TRY(first, take_cells(cells_of(type)));
    index = first;
  }
  metrics_.push_back({.options = options, .type = type, .index = index});
  return index;
}

std::atomic<std::int64_t>* RegistryCore::gauge_at(std::size_t index) {
  const sync::LockGuard lock(mutex_);
  return &gauges_[index];
}

Cell* RegistryCore::take_block() {
  const sync::LockGuard lock(mutex_);
  if (!free_blocks_.empty()) {
    Cell* const block = free_blocks_.back();
    free_blocks_.pop_back();
    return block;
  }
  if (blocks_.size() == options_.max_threads) return nullptr;
  Result<os::Mapping> fresh = os::Mapping::anonymous({.bytes = options_.max_cells * sizeof(Cell)});
  if (!fresh) return nullptr;
  blocks_.push_back(std::move(*fresh));
  return cells_in(blocks_.back());
}

void RegistryCore::give_back(Cell* block) {
  const sync::LockGuard lock(mutex_);
  for (std::size_t i = 0; i < used_cells_; ++i) {
    const std::uint64_t value = block[i].load(std::memory_order_relaxed);
    if (value == 0) continue;  // An untouched page stays without memory.
    totals_[i] += value;
    block[i].store(0, std::memory_order_relaxed);
  }
  free_blocks_.push_back(block);
}

std::uint64_t RegistryCore::sum_of(std::size_t cell) const {
  std::uint64_t sum = totals_[cell] + shared_block_[cell].load(std::memory_order_relaxed);
  for (const os::Mapping& block : blocks_) sum += cells_in(block)[cell].load(std::memory_order_relaxed);
  return sum;
}

MetricValue RegistryCore::value_of(const Metric& metric) const {
  MetricValue value{.name = metric.options.name,
                    .help = metric.options.help,
                    .labels = metric.options.labels,
                    .type = metric.type,
                    .unit = metric.options.unit};
  switch (metric.type) {
    case MetricType::kCounter:
      value.counter = sum_of(metric.index);
      break;
    case MetricType::kGauge:
      value.gauge = gauges_[metric.index].load(std::memory_order_relaxed);
      break;
    case MetricType::kHistogram:
      value.buckets.resize(kHistogramBuckets);
      for (std::size_t i = 0; i < kHistogramBuckets; ++i) value.buckets[i] = sum_of(metric.index + i);
      value.sum = sum_of(metric.index + kHistogramBuckets);
      break;
  }
  return value;
}

std::vector<MetricValue> RegistryCore::snapshot() const {
  const sync::LockGuard lock(mutex_);
  std::vector<MetricValue> values;
  values.reserve(metrics_.size());
  for (const Metric& metric : metrics_) {
    // Beside its family, if that is there already.
    auto place = std::find_if(values.rbegin(), values.rend(),
                              [&](const MetricValue& value) { return value.name == metric.options.name; });
    values.insert(place == values.rend() ? values.end() : place.base(), value_of(metric));
  }
  return values;
}

}  // namespace yonder::telemetry::internal
