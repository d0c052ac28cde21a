#include "yonder/cache/stats_report.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
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
      sum.stats.index_grows |= stats.index_grows;
      for (std::size_t s = 0; s < kSegments; ++s) {
        sum.stats.segment_items[s] += stats.segment_items[s];
        sum.stats.segment_bytes[s] += stats.segment_bytes[s];
        Seconds& oldest = sum.stats.oldest_access[s];
        if (stats.segment_items[s] > 0 && (oldest == 0 || stats.oldest_access[s] < oldest))
          oldest = stats.oldest_access[s];
      }
      sum.stats.last_evicted_age = std::max(sum.stats.last_evicted_age, stats.last_evicted_age);
      sum.counters += partition.counters();
    });
  }
  return sum;
}

// What memcached counts and what cannot happen here: nothing waits to be accepted, no buffer of a
// connection has a limit, no page of memory belongs to a size, nobody holds items while others
// work, no log is written, no network card is asked for its queue.
constexpr std::array<std::string_view, 26> kNever = {"response_obj_oom",
                                                     "response_obj_count",
                                                     "response_obj_bytes",
                                                     "read_buf_bytes_free",
                                                     "read_buf_oom",
                                                     "listen_disabled_num",
                                                     "time_in_listen_disabled_us",
                                                     "slab_reassign_rescues",
                                                     "slab_reassign_chunk_rescues",
                                                     "slab_reassign_evictions_nomem",
                                                     "slab_reassign_inline_reclaim",
                                                     "slab_reassign_busy_items",
                                                     "slab_reassign_busy_deletes",
                                                     "slab_reassign_running",
                                                     "slabs_moved",
                                                     "slab_global_page_pool",
                                                     "malloc_fails",
                                                     "log_worker_dropped",
                                                     "log_worker_written",
                                                     "log_watcher_skipped",
                                                     "log_watcher_sent",
                                                     "log_watchers",
                                                     "unexpected_napi_ids",
                                                     "round_robin_fallback",
                                                     "lrutail_reflocked",
                                                     "lru_bumps_dropped"};

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
  for (const std::string_view name : kNever) stat(name, std::uint64_t{0});
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
  show("conn_yields", Count::kConnYields);
}

void StatsReport::commands_of_class(std::string_view prefix) {
  const CounterValues values = service_.counters();
  const auto show = [&](std::string_view name, Count what) {
    stat(fmt::format("{}:{}", prefix, name), values[static_cast<std::size_t>(what)]);
  };
  show("get_hits", Count::kGetHits);
  show("cmd_set", Count::kCmdSet);
  show("delete_hits", Count::kDeleteHits);
  show("incr_hits", Count::kIncrHits);
  show("decr_hits", Count::kDecrHits);
  show("cas_hits", Count::kCasHits);
  show("cas_badval", Count::kCasBadval);
  show("touch_hits", Count::kTouchHits);
}

void StatsReport::memory() {
  const Totals sum = totals_of(service_.store());
  stat("get_expired", sum.counters.found_expired);
  stat("get_flushed", sum.counters.found_flushed);
  stat("limit_maxbytes", service_.store().budget().limit());
  stat("hash_power_level", std::uint64_t{std::bit_width(sum.stats.index_buckets | 1) - 1u});
  stat("hash_bytes", sum.stats.index_buckets * sizeof(Ref));
  stat("hash_is_expanding", std::uint64_t{sum.stats.index_grows ? 1u : 0u});
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
  stat("lru_crawler_running", std::uint64_t{service_.is_crawl_wanted() ? 1u : 0u});
  stat("lru_crawler_starts", service_.store().crawls());
  stat("crawler_reclaimed", sum.counters.crawled);
  stat("crawler_items_checked", sum.counters.crawler_checked);
  stat("moves_to_cold", sum.counters.moves_to_cold);
  stat("moves_to_warm", sum.counters.moves_to_warm);
  stat("moves_within_lru", sum.counters.moves_within);
  stat("direct_reclaims", sum.counters.direct_reclaims);
}

void StatsReport::settings() {
  const ServiceOptions& options = service_.options();
  const auto yes = [](bool value) { return std::string_view(value ? "yes" : "no"); };
  stat("maxbytes", service_.store().budget().limit());
  stat("verbosity", service_.verbosity());
  stat("evictions", service_.store().policy().evict ? "on" : "off");
  stat("item_size_max", std::uint64_t{options.max_item_bytes});
  stat("cas_enabled", yes(options.use_cas));
  stat("detail_enabled", yes(service_.prefixes().enabled()));
  stat("flush_enabled", yes(options.allow_flush));
  stat("dump_enabled", yes(options.allow_dump));
  stat("shutdown_command", yes(options.allow_shutdown));
  stat("auth_enabled_ascii", yes(service_.auth() != nullptr));
  stat("auth_enabled_sasl", "no");
  stat("stat_key_prefix", std::string_view(&options.prefix_delimiter, 1));
  stat("maxconns_fast", "yes");
  stat("slab_reassign", "no");
  stat("slab_automove", "0");
  stat("track_sizes", "yes");
  const PartitionPolicy policy = service_.store().policy();
  stat("lru_crawler", yes(service_.crawls()));
  stat("lru_crawler_sleep", kCrawlPauseMicroseconds);
  stat("lru_crawler_tocrawl", "0");
  stat("lru_maintainer_thread", "yes");
  stat("lru_segmented", "yes");
  stat("hot_lru_pct", policy.hot_percent);
  stat("warm_lru_pct", policy.warm_percent);
  stat("hot_max_factor", fmt::format("{:.2f}", policy.hot_max_factor));
  stat("warm_max_factor", fmt::format("{:.2f}", policy.warm_max_factor));
  stat("temp_lru", "no");
  stat("tail_repair_time", "0");
  stat("inline_ascii_response", "no");
  stat("hash_algorithm", "xxh3");
  stat("partitions", std::uint64_t{service_.store().partitions()});
  for (const auto& [name, value] : options.shown) stat(name, value);
  end();
}

void StatsReport::items() {
  const Totals sum = totals_of(service_.store());
  const CounterValues values = service_.counters();
  const auto line = [&](std::string_view name, std::uint64_t value) {
    stat(fmt::format("items:{}:{}", kItemClass, name), value);
  };
  const auto list = [&](Segment segment) {
    return sum.stats.segment_items[static_cast<std::size_t>(segment)];
  };
  const auto age = [&](Segment segment) {
    const Seconds oldest = sum.stats.oldest_access[static_cast<std::size_t>(segment)];
    return std::uint64_t{oldest == 0 ? 0 : service_.now() - std::min(oldest, service_.now())};
  };
  line("number", sum.stats.items);
  line("number_hot", list(Segment::kHot));
  line("number_warm", list(Segment::kWarm));
  line("number_cold", list(Segment::kCold));
  line("age_hot", age(Segment::kHot));
  line("age_warm", age(Segment::kWarm));
  line("age", age(Segment::kCold));
  line("mem_requested", sum.stats.item_bytes);
  line("evicted", sum.counters.evicted);
  line("evicted_nonzero", sum.counters.evicted_nonzero);
  line("evicted_time", sum.stats.last_evicted_age);
  line("outofmemory", sum.counters.out_of_memory);
  line("tailrepairs", 0);
  line("reclaimed", sum.counters.reclaimed);
  line("expired_unfetched", sum.counters.expired_unfetched);
  line("evicted_unfetched", sum.counters.evicted_unfetched);
  line("evicted_active", sum.counters.evicted_active);
  line("crawler_reclaimed", sum.counters.crawled);
  line("crawler_items_checked", sum.counters.crawler_checked);
  line("lrutail_reflocked", 0);
  line("moves_to_cold", sum.counters.moves_to_cold);
  line("moves_to_warm", sum.counters.moves_to_warm);
  line("moves_within_lru", sum.counters.moves_within);
  line("direct_reclaims", sum.counters.direct_reclaims);
  const std::uint64_t warm = values[static_cast<std::size_t>(Count::kHitsToWarm)];
  const std::uint64_t cold = values[static_cast<std::size_t>(Count::kHitsToCold)];
  // The three are read one after the other while others count.
  const std::uint64_t hits = std::max(values[static_cast<std::size_t>(Count::kGetHits)], warm + cold);
  line("hits_to_hot", hits - warm - cold);
  line("hits_to_warm", warm);
  line("hits_to_cold", cold);
  line("hits_to_temp", 0);
  end();
}

void StatsReport::slabs() {
  const Totals sum = totals_of(service_.store());
  const std::string prefix = fmt::format("{}", kItemClass);
  stat(prefix + ":used_chunks", sum.stats.items);
  stat(prefix + ":mem_requested", sum.stats.item_bytes);
  commands_of_class(prefix);
  stat("active_slabs", std::uint64_t{1});
  stat("total_malloced", sum.stats.heap_bytes);
  end();
}

// Sizes are counted when somebody asks: there is nothing to switch.
void StatsReport::sizes_status() {
  stat("sizes_status", "enabled");
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

void dump_items(Service& service, Output& out, std::size_t limit) {
  // memcached's bound on this report; the rest is for lru_crawler metadump.
  constexpr std::size_t kMaxBytes = std::size_t{2} << 20;
  const std::size_t mark = out.size();
  std::size_t left = limit == 0 ? SIZE_MAX : limit;
  const auto show = [&](const Item& item) {
    if (left == 0 || out.size() - mark > kMaxBytes) return;
    --left;
    out.append_line(fmt::format("ITEM {} [{} b; {} s]", key_text(item), item.value_bytes, item.expires));
  };
  for (std::size_t i = 0; i < service.store().partitions() && left > 0; ++i) {
    service.store().visit_partition(i, [&](Partition& partition) {
      for (const Segment segment : {Segment::kHot, Segment::kWarm, Segment::kCold})
        partition.visit(segment, left, service.now(), show);
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
                               item.expires == 0 ? -1 : std::int64_t{item.expires}, item.accessed,
                               service.options().use_cas ? item.cas : 0, item.has(kFetched) ? "yes" : "no",
                               kItemClass, item.total_bytes()));
      });
    }
  });
}

}  // namespace yonder::cache
