#include "apps/rcached/extended_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>

namespace yonder::apps {
namespace {

std::optional<unsigned> number_up_to(std::string_view text, unsigned most) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > most) return std::nullopt;
  return value;
}

std::optional<double> positive(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value > 0)) return std::nullopt;
  return value;
}

// Tuning of slabs, of the hash table and of the log, which are not here or tune themselves.
constexpr std::array<std::string_view, 26> kWithoutEffect = {"maxconns_fast",
                                                             "hashpower",
                                                             "hash_algorithm",
                                                             "tail_repair_time",
                                                             "lru_crawler_sleep",
                                                             "lru_crawler_tocrawl",
                                                             "read_buf_mem_limit",
                                                             "lru_maintainer",
                                                             "slab_chunk_max",
                                                             "watcher_logbuf_size",
                                                             "worker_logbuf_size",
                                                             "track_sizes",
                                                             "modern",
                                                             "slab_reassign",
                                                             "slab_automove",
                                                             "lru_segmented",
                                                             "slab_automove_freeratio",
                                                             "ssl_wbuf_size",
                                                             "resp_obj_mem_limit",
                                                             "temporary_ttl",
                                                             "no_lru_maintainer",
                                                             "slab_automove_window",
                                                             "no_slab_reassign",
                                                             "relaxed_privileges",
                                                             "drop_privileges",
                                                             "no_drop_privileges"};

std::string apply_tls(std::string_view name, const std::string& value, CacheSettings& settings, bool& known) {
  known = true;
  cache::TlsOptions& tls = settings.tls;
  if (name == "ssl_chain_cert") {
    tls.chain_cert = value;
  } else if (name == "ssl_key") {
    tls.key = value;
  } else if (name == "ssl_ca_cert") {
    tls.ca_cert = value;
  } else if (name == "ssl_ciphers") {
    tls.ciphers = value;
  } else if (name == "ssl_session_cache") {
    tls.session_cache = true;
  } else if (name == "ssl_keyformat") {
    if (value != "PEM") return "ssl_keyformat: keys are PEM files here";
  } else if (name == "ssl_verify_mode") {
    const std::optional<unsigned> mode = number_up_to(value, 3);
    if (!mode) return "ssl_verify_mode is 0, 1, 2 or 3";
    tls.verify = static_cast<cache::TlsVerify>(*mode);
  } else if (name == "ssl_min_version") {
    if (value != "2" && value != "3" && value != "tlsv1.2" && value != "tlsv1.3") {
      return "ssl_min_version is 2 (TLS 1.2) or 3 (TLS 1.3); older ones are broken";
    }
    tls.tls13_only = value == "3" || value == "tlsv1.3";
  } else {
    known = false;
  }
  return {};
}

std::string apply_one(const std::string& name, const std::string& value, CacheSettings& settings) {
  bool known = false;
  if (std::string wrong = apply_tls(name, value, settings, known); known || !wrong.empty()) return wrong;
  if (name == "idle_timeout") {
    const std::optional<unsigned> seconds = number_up_to(value, 86400 * 365);
    if (!seconds) return "idle_timeout is a number of seconds";
    settings.server.idle_timeout = std::chrono::seconds(*seconds);
  } else if (name == "lru_crawler" || name == "no_lru_crawler" || name == "no_modern") {
    // Versions of memcached before "modern" had no crawler running.
    settings.crawl = name == "lru_crawler";
  } else if (name == "hot_max_factor" || name == "warm_max_factor") {
    const std::optional<double> factor = positive(value);
    if (!factor) return fmt::format("{} is a number above 0", name);
    cache::PartitionPolicy& policy = settings.store.policy;
    (name == "hot_max_factor" ? policy.hot_max_factor : policy.warm_max_factor) = *factor;
  } else if (name == "hot_lru_pct" || name == "warm_lru_pct") {
    const std::optional<unsigned> percent = number_up_to(value, 80);
    if (!percent) return fmt::format("{} is from 0 to 80", name);
    cache::PartitionPolicy& policy = settings.store.policy;
    (name == "hot_lru_pct" ? policy.hot_percent : policy.warm_percent) = *percent;
    if (policy.hot_percent + policy.warm_percent > 80)
      return "hot_lru_pct and warm_lru_pct together are at most 80";
  } else if (std::ranges::find(kWithoutEffect, name) != kWithoutEffect.end()) {
    settings.without_effect.push_back("-o " + name);
  } else {
    return fmt::format("-o knows no \"{}\"", name);
  }
  return {};
}

}  // namespace

std::string apply_extended(const std::string& list, CacheSettings& settings) {
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string one = list.substr(begin, end - begin);
    const std::size_t equals = std::min(one.find('='), one.size());
    const std::string value = equals < one.size() ? one.substr(equals + 1) : "";
    if (!one.empty()) {
      if (std::string wrong = apply_one(one.substr(0, equals), value, settings); !wrong.empty()) return wrong;
    }
    begin = end + 1;
  }
  return {};
}

}  // namespace yonder::apps
