#include "yonder/telemetry/counters.h"

#include <algorithm>

#include "yonder/telemetry/internal/registry_core.h"

namespace yonder::telemetry {
namespace internal {
namespace {

// The blocks this thread holds, one per registry it has counted in.
class LocalBlocks {
 public:
  ~LocalBlocks() {
    for (const Held& held : held_) held.core->give_back(held.block);
    local_cells = {};
    ended = true;
  }

  Cell* find_or_take(RegistryCore& core, const std::shared_ptr<RegistryCore>& owner) {
    for (const Held& held : held_)
      if (held.core.get() == &core) return held.block;
    drop_closed();
    Cell* const block = core.take_block();
    if (block != nullptr) held_.push_back({.core = owner, .block = block});
    return block;
  }

  // Set when the thread has begun to end: destructors of other thread-local
  // objects may still count, and then use the shared block.
  static thread_local constinit bool ended;

 private:
  struct Held {
    std::shared_ptr<RegistryCore> core;
    Cell* block;
  };
  // Registries that are gone: nobody will ask for their counts.
  void drop_closed() {
    std::erase_if(held_, [](const Held& held) { return held.core->is_closed(); });
  }
  std::vector<Held> held_;
};
thread_local constinit bool LocalBlocks::ended = false;

thread_local LocalBlocks local_blocks;

}  // namespace

void find_local_cells(RegistryCore& core, std::uint64_t registry_id) {
  Cell* block = nullptr;
  if (!LocalBlocks::ended) block = local_blocks.find_or_take(core, core.shared_from_this());
  local_cells = {.registry_id = registry_id,
                 .cells = block != nullptr ? block : core.shared_block(),
                 .shared = block == nullptr};
}

}  // namespace internal

Histogram MetricValue::to_histogram() const {
  Histogram histogram({.max_value = kHistogramMax});
  for (std::size_t i = 0; i < buckets.size(); ++i)
    if (buckets[i] != 0) histogram.record_n(histogram_upper(i), buckets[i]);
  return histogram;
}

Registry::Registry(const RegistryOptions& options)
    : core_(std::make_shared<internal::RegistryCore>(options)) {}
Registry::~Registry() { core_->close(); }

Result<Counter> Registry::counter(const MetricOptions& options) {
  YONDER_TRY(index, core_->add_metric(options, MetricType::kCounter));
  return Counter({.core = core_.get(), .registry_id = core_->id(), .index = index});
}

Result<Gauge> Registry::gauge(const MetricOptions& options) {
  YONDER_TRY(index, core_->add_metric(options, MetricType::kGauge));
  return Gauge(core_->gauge_at(index));
}

Result<HistogramMetric> Registry::histogram(const MetricOptions& options) {
  YONDER_TRY(index, core_->add_metric(options, MetricType::kHistogram));
  return HistogramMetric({.core = core_.get(), .registry_id = core_->id(), .index = index});
}

std::vector<MetricValue> Registry::snapshot() const { return core_->snapshot(); }

}  // namespace yonder::telemetry
