#include "yonder/cache/stats_report.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <map>

#include "yonder/cache/base64.h"
#include "yonder/cache/internal/layout.h"

namespace yonder::cache {
namespace {

struct Totals {
  PartitionStats stats;
  PartitionCounters counters{};
};

Totals totals_of(Store& store) {
  Totals sum;
  for (std::size_t i = 0; i < store.partitions(); ++i) {
    store.visit_partition(i, [&](Partition& partition) {
      const PartitionStats stats = partition.stats();
      sum.stats.items += stats.items;
      sum.stats.item_bytes += stats.item_bytes;
      sum.stats.heap_bytes += stats.heap_bytes;
      sum.stats.index_buckets += stats.index_buckets;
      for (std::size_t s = 0; s < kSegments; ++s) {
        sum.stats.segment_items[s] += stats.segment_items[s];
        sum.stats.segment_bytes[s] += stats.segment_bytes[s];
      }
      sum.stats.last_evicted_age = std::max(sum.stats.last_evicted_age, stats.last_evicted_age);
      const PartitionCounters& counters = partition.counters();
      sum.counters.stored += counters.stored;
      sum.counters.evicted += counters.evicted;
      sum.counters.evicted_unfetched += counters.evicted_unfetched;
      sum.counters.evicted_active += counters.evicted_active;
      sum.counters.reclaimed += counters.reclaimed;
      sum.counters.expired_unfetched += counters.expired_unfetched;
      sum.counters.crawled += counters.crawled;
      sum.counters.out_of_memory += counters.out_of_memory;
      sum.counters.moves_to_cold += counters.moves_to_cold;
      sum.counters.moves_to_warm += counters.moves_to_warm;
    });
  }
  return sum;
}

// A key as it may stand in a line of text.
std::string key_text(const Item& item) {
  if (!item.has(kBinaryKey)) return std::string(item.key());
  std::string text(base64_bytes(item.key_bytes), '\0');
  encode_base64(item.key(), text);
  return text;
}

}  // namespace

void StatsReport::stat(std::string_view name, std::string_view value) {
  out_.append("STAT ");
  out_.append(name);
  out_.append(' ');
  out_.append_line(value);
}

void StatsReport::stat(std::string_view name, std::uint64_t value) {
  out_.append("STAT ");
  out_.append(name);
  out_.append(' ');
  out_.append_number(value);
  out_.append("\r\n");
}

void StatsReport::general() {
  stat("pid", static_cast<std::uint64_t>(::getpid()));
  stat("uptime", service_.now() - service_.started());
  stat("time", service_.now());
  stat("version", kProtocolVersion);
  usage();
  if (service_.hooks().report_server) service_.hooks().report_server(out_);
  commands();
  memory();
  end();
}

void StatsReport::usage() {
  stat("pointer_size", std::uint64_t{8 * sizeof(void*)});
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  stat("rusage_user", fmt::format("{}.{:06}", usage.ru_utime.tv_sec, usage.ru_utime.tv_usec));
  stat("rusage_system", fmt::format("{}.{:06}", usage.ru_stime.tv_sec, usage.ru_stime.tv_usec));
}

void StatsReport::commands() {
  const CounterValues values = service_.counters();
  const auto show = [&](std::string_view name, Count what) {
    stat(name, values[static_cast<std::size_t>(what)]);
  };
  show("cmd_get", Count::kCmdGet);
  show("cmd_set", Count::kCmdSet);
  show("cmd_flush", Count::kCmdFlush);
  show("cmd_touch", Count::kCmdTouch);
  show("cmd_meta", Count::kCmdMeta);
  show("get_hits", Count::kGetHits);
  show("get_misses", Count::kGetMisses);
  show("delete_misses", Count::kDeleteMisses);
  show("delete_hits", Count::kDeleteHits);
  show("incr_misses", Count::kIncrMisses);
  show("incr_hits", Count::kIncrHits);
  show("decr_misses", Count::kDecrMisses);
  show("decr_hits", Count::kDecrHits);
  show("cas_misses", Count::kCasMisses);
  show("cas_hits", Count::kCasHits);
  show("cas_badval", Count::kCasBadval);
  show("touch_hits", Count::kTouchHits);
  show("touch_misses", Count::kTouchMisses);
  show("store_too_large", Count::kStoreTooLarge);
  show("store_no_memory", Count::kStoreNoMemory);
  show("auth_cmds", Count::kAuthCmds);
  show("auth_errors", Count::kAuthErrors);
  show("bytes_read", Count::kBytesRead);
  show("bytes_written", Count::kBytesWritten);
  show("forwarded", Count::kForwarded);
  show("forward_failed", Count::kForwardFailed);
  show("slow_readers", Count::kSlowReaders);
  show("idle_kicks", Count::kIdleKicks);
}

void StatsReport::memory() {
  const Totals sum = totals_of(service_.store());
  stat("limit_maxbytes", service_.store().budget().limit());
  stat("hash_bytes", sum.stats.index_buckets * sizeof(Ref));
  stat("bytes", sum.stats.item_bytes);
  stat("heap_bytes", sum.stats.heap_bytes);
  stat("curr_items", sum.stats.items);
  stat("total_items", sum.counters.stored);
  stat("partitions", std::uint64_t{service_.store().partitions()});
  stat("expired_unfetched", sum.counters.expired_unfetched);
  stat("evicted_unfetched", sum.counters.evicted_unfetched);
  stat("evicted_active", sum.counters.evicted_active);
  stat("evictions", sum.counters.evicted);
  stat("reclaimed", sum.counters.reclaimed);
  stat("crawler_reclaimed", sum.counters.crawled);
  stat("moves_to_cold", sum.counters.moves_to_cold);
  stat("moves_to_warm", sum.counters.moves_to_warm);
}

void StatsReport::settings() {
  const ServiceOptions& options = service_.options();
  const auto yes = [](bool value) { return std::string_view(value ? "yes" : "no"); };
  stat("maxbytes", service_.store().budget().limit());
  stat("verbosity", service_.verbosity());
  stat("evictions", service_.store().policy().evict ? "on" : "off");
  stat("item_size_max", std::uint64_t{options.max_item_bytes});
  stat("cas_enabled", "yes");
  stat("detail_enabled", yes(service_.prefixes().enabled()));
  stat("flush_enabled", yes(options.allow_flush));
  stat("dump_enabled", yes(options.allow_dump));
  stat("shutdown_command", yes(options.allow_shutdown));
  stat("auth_enabled_ascii", yes(service_.auth() != nullptr));
  stat("lru_crawler", yes(service_.crawls()));
  stat("lru_segmented", "yes");
  stat("hot_lru_pct", service_.store().policy().hot_percent);
  stat("warm_lru_pct", service_.store().policy().warm_percent);
  stat("hash_algorithm", "xxh3");
  stat("partitions", std::uint64_t{service_.store().partitions()});
  for (const auto& [name, value] : options.shown) stat(name, value);
  end();
}

void StatsReport::items() {
  const Totals sum = totals_of(service_.store());
  for (std::size_t i = 0; i < kSegments; ++i) {
    if (sum.stats.segment_items[i] == 0) continue;
    const auto line = [&](std::string_view name, std::uint64_t value) {
      stat(fmt::format("items:{}:{}", i + 1, name), value);
    };
    line("number", sum.stats.segment_items[i]);
    line("mem_requested", sum.stats.segment_bytes[i]);
    if (static_cast<Segment>(i) != Segment::kCold) continue;
    line("evicted", sum.counters.evicted);
    line("evicted_time", sum.stats.last_evicted_age);
    line("outofmemory", sum.counters.out_of_memory);
    line("reclaimed", sum.counters.reclaimed);
    line("expired_unfetched", sum.counters.expired_unfetched);
    line("evicted_unfetched", sum.counters.evicted_unfetched);
    line("evicted_active", sum.counters.evicted_active);
    line("crawler_reclaimed", sum.counters.crawled);
  }
  end();
}

void StatsReport::slabs() {
  const Totals sum = totals_of(service_.store());
  for (std::size_t i = 0; i < kSegments; ++i) {
    if (sum.stats.segment_items[i] == 0) continue;
    stat(fmt::format("{}:used_chunks", i + 1), sum.stats.segment_items[i]);
    stat(fmt::format("{}:mem_requested", i + 1), sum.stats.segment_bytes[i]);
  }
  stat("active_slabs", std::uint64_t{kSegments});
  stat("total_malloced", sum.stats.heap_bytes);
  end();
}

void StatsReport::sizes() {
  // Sizes in steps of 32, as memcached counts them; every item is visited.
  std::map<std::size_t, std::uint64_t> sizes;
  for (std::size_t i = 0; i < service_.store().partitions(); ++i) {
    service_.store().visit_partition(i, [&](Partition& partition) {
      for (const Segment segment : {Segment::kHot, Segment::kWarm, Segment::kCold}) {
        partition.visit(segment, SIZE_MAX, service_.now(),
                        [&](const Item& item) { ++sizes[(item.total_bytes() + 31) / 32 * 32]; });
      }
    });
  }
  for (const auto& [bytes, count] : sizes) stat(fmt::format("{}", bytes), count);
  end();
}

void StatsReport::connections() {
  if (service_.hooks().report_connections) service_.hooks().report_connections(out_);
  end();
}

void StatsReport::partitions() {
  Store& store = service_.store();
  for (std::size_t i = 0; i < store.partitions(); ++i) {
    PartitionStats stats;
    std::uint64_t stored = 0;
    bool local = false;
    if (store.is_local(i)) {
      local = store.visit_partition(i, [&](Partition& partition) {
        stats = partition.stats();
        stored = partition.counters().stored;
      }) == Access::kDone;
    }
    if (!local) {
      const std::string owner = store.owner_of(i);
      stat(fmt::format("{}:owner", i), owner.empty() ? "unknown" : std::string_view(owner));
      continue;
    }
    stat(fmt::format("{}:owner", i), "local");
    stat(fmt::format("{}:items", i), stats.items);
    stat(fmt::format("{}:bytes", i), stats.heap_bytes);
    stat(fmt::format("{}:operations", i), store.operations(i));
    stat(fmt::format("{}:stores", i), stored);
  }
  end();
}

void dump_items(Service& service, Output& out, Segment segment, std::size_t limit) {
  // memcached's bound on this report; the rest is for lru_crawler metadump.
  constexpr std::size_t kMaxBytes = std::size_t{2} << 20;
  const std::size_t mark = out.size();
  std::size_t left = limit == 0 ? SIZE_MAX : limit;
  for (std::size_t i = 0; i < service.store().partitions() && left > 0; ++i) {
    service.store().visit_partition(i, [&](Partition& partition) {
      partition.visit(segment, left, service.now(), [&](const Item& item) {
        if (left == 0 || out.size() - mark > kMaxBytes) return;
        --left;
        out.append_line(fmt::format("ITEM {} [{} b; {} s]", key_text(item), item.value_bytes, item.expires));
      });
    });
  }
  out.append("END\r\n");
}

void dump_partition(Service& service, Output& out, std::size_t index) {
  service.store().visit_partition(index, [&](Partition& partition) {
    for (const Segment segment : {Segment::kHot, Segment::kWarm, Segment::kCold}) {
      partition.visit(segment, SIZE_MAX, service.now(), [&](const Item& item) {
        out.append("key=");
        for (const char c : key_text(item)) {
          // As memcached: what a URL would not carry is escaped.
          const auto byte = static_cast<unsigned char>(c);
          const bool plain = (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') ||
                             (byte >= 'a' && byte <= 'z') || byte == '-' || byte == '.' || byte == '_' ||
                             byte == '~';
          if (plain) {
            out.append(c);
          } else {
            out.append(fmt::format("%{:02X}", byte));
          }
        }
        out.append(fmt::format(" exp={} la={} cas={} fetch={} cls={} size={}\n",
                               item.expires == 0 ? -1 : std::int64_t{item.expires}, item.accessed, item.cas,
                               item.has(kFetched) ? "yes" : "no", static_cast<unsigned>(segment) + 1,
                               item.total_bytes()));
      });
    }
  });
}

}  // namespace yonder::cache
