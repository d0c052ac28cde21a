#include "yonder/cache/service.h"

#include <ctime>

#include "yonder/os/steady_clock.h"

namespace yonder::cache {

Service::Service(Store& store, const ServiceOptions& options)
    : store_(store),
      options_(options),
      started_at_(os::SteadyClock::read()),
      started_(static_cast<Seconds>(std::time(nullptr))),
      prefixes_(options.prefix_delimiter),
      verbosity_(options.verbosity) {
  if (options.prefix_stats) prefixes_.enable(true);
}

Seconds Service::now() const {
  const Duration since = os::SteadyClock::read() - started_at_;
  return started_ + static_cast<Seconds>(std::chrono::duration_cast<std::chrono::seconds>(since).count());
}

ThreadCounters& Service::make_counters() {
  const sync::LockGuard lock(mutex_);
  counters_.push_back(std::make_unique<ThreadCounters>());
  return *counters_.back();
}

CounterValues Service::counters() const {
  const sync::LockGuard lock(mutex_);
  CounterValues sum{};
  for (const auto& counters : counters_) counters->add_to(sum);
  for (std::size_t i = 0; i < kCounts; ++i) sum[i] -= at_reset_[i];
  return sum;
}

void Service::reset_counters() {
  {
    const sync::LockGuard lock(mutex_);
    at_reset_ = {};
    for (const auto& counters : counters_) counters->add_to(at_reset_);
  }
  prefixes_.clear();
  for (std::size_t i = 0; i < store_.partitions(); ++i) {
    store_.visit_partition(i, [](Partition& partition) { partition.reset_counters(); });
  }
}

}  // namespace yonder::cache
