#include "apps/rcached/metrics.h"

#include <array>

#include "yonder/cache/counters.h"

namespace yonder::apps {
namespace {

using telemetry::MetricType;
using telemetry::MetricValue;
using telemetry::Unit;

struct Shown {
  const char* name;
  const char* help;
  cache::Count count;
  Unit unit = Unit::kNone;
};
constexpr std::array kShown = {
    Shown{"yonder_cache_gets_total", "Keys that were asked for.", cache::Count::kCmdGet},
    Shown{"yonder_cache_hits_total", "Of these, found.", cache::Count::kGetHits},
    Shown{"yonder_cache_sets_total", "Values that were stored, or tried.", cache::Count::kCmdSet},
    Shown{"yonder_cache_forwarded_total", "Commands sent on to the owner of their key.",
          cache::Count::kForwarded},
    Shown{"yonder_cache_slow_readers_total", "Times a client was not read because it took no replies.",
          cache::Count::kSlowReaders},
    Shown{"yonder_cache_read_bytes_total", "Received from clients.", cache::Count::kBytesRead, Unit::kBytes},
    Shown{"yonder_cache_written_bytes_total", "Sent to clients.", cache::Count::kBytesWritten, Unit::kBytes},
};

MetricValue counter(const char* name, const char* help, Unit unit, std::uint64_t value) {
  MetricValue out{.name = name, .help = help, .labels = {}, .type = MetricType::kCounter, .unit = unit};
  out.counter = value;
  return out;
}

MetricValue gauge(const char* name, const char* help, Unit unit, std::uint64_t value) {
  MetricValue out{.name = name, .help = help, .labels = {}, .type = MetricType::kGauge, .unit = unit};
  out.gauge = static_cast<std::int64_t>(value);
  return out;
}

}  // namespace

std::vector<MetricValue> metrics_of(cache::Service& service, const cache::Server& server) {
  std::vector<MetricValue> out;
  const cache::CounterValues values = service.counters();
  for (const Shown& shown : kShown) {
    out.push_back(counter(shown.name, shown.help, shown.unit, values[static_cast<std::size_t>(shown.count)]));
  }
  const cache::Server::Connections connections = server.connections();
  out.push_back(
      counter("yonder_cache_connections_total", "Clients that came.", Unit::kNone, connections.total));
  out.push_back(
      counter("yonder_cache_rejected_total", "Clients over the limit.", Unit::kNone, connections.rejected));
  out.push_back(
      gauge("yonder_cache_connections", "Clients that are there.", Unit::kNone, connections.current));
  std::uint64_t items = 0;
  std::uint64_t bytes = 0;
  std::uint64_t local = 0;
  for (std::size_t i = 0; i < service.store().partitions(); ++i) {
    if (!service.store().is_local(i)) continue;
    service.store().visit_partition(i, [&](cache::Partition& partition) {
      const cache::PartitionStats stats = partition.stats();
      ++local;
      items += stats.items;
      bytes += stats.heap_bytes;
    });
  }
  out.push_back(gauge("yonder_cache_items", "Items that are held.", Unit::kNone, items));
  out.push_back(gauge("yonder_cache_memory_bytes", "Memory of items and their index.", Unit::kBytes, bytes));
  out.push_back(gauge("yonder_cache_memory_limit_bytes", "Most memory they may take.", Unit::kBytes,
                      service.store().budget().limit()));
  out.push_back(gauge("yonder_cache_local_partitions", "Partitions that are here.", Unit::kNone, local));
  return out;
}

}  // namespace yonder::apps
