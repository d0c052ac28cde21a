// Commands without a key: reports, limits, switches.
#include <algorithm>
#include <array>
#include <optional>

#include "yonder/cache/executor.h"
#include "yonder/cache/numbers.h"
#include "yonder/cache/stats_report.h"

namespace yonder::cache {
Ran Executor::administer(const CommandLine& line) {
  struct Command {
    std::string_view name;
    Ran (Executor::*run)(const CommandLine&);
  };
  static constexpr std::array kCommands = {
      Command{"version", &Executor::version},
      Command{"mn", &Executor::no_operation},
      Command{"stats", &Executor::stats},
      Command{"flush_all", &Executor::flush_all},
      Command{"cache_memlimit", &Executor::memory_limit},
      Command{"lru", &Executor::lru},
      Command{"lru_crawler", &Executor::crawler},
      Command{"slabs", &Executor::slabs},
      Command{"shutdown", &Executor::shutdown},
      Command{"refresh_certs", &Executor::refresh_certificates},
      Command{"watch", &Executor::watch},
      Command{"verbosity", &Executor::verbosity},
  };
  if (line[0] == "quit") return Ran::kClose;
  for (const Command& command : kCommands) {
    if (command.name == line[0]) return (this->*command.run)(line);
  }
  // A browser, or a page that makes one send commands: such lines are not answered.
  if (line[line.size() - 1].starts_with("HTTP/")) return Ran::kClose;
  reply("ERROR");
  return Ran::kDone;
}

Ran Executor::version(const CommandLine&) {
  out_.append("VERSION ");
  out_.append_line(kProtocolVersion);
  return Ran::kDone;
}

Ran Executor::no_operation(const CommandLine&) {
  reply("MN");
  return Ran::kDone;
}

Ran Executor::watch(const CommandLine& line) {
  // There is no log to watch: as memcached answers with -W.
  reply("CLIENT_ERROR watch commands not allowed", line.ends_with_noreply());
  return Ran::kDone;
}

Ran Executor::verbosity(const CommandLine& line) {
  constexpr std::uint32_t kMaxVerbosity = 2;
  if (line.size() != 2 && line.size() != 3) {
    reply("ERROR");
    return Ran::kDone;
  }
  const std::optional<std::uint32_t> level = parse_u32(line[1]);
  if (level) service_.set_verbosity(std::min(*level, kMaxVerbosity));
  reply(level ? "OK" : kBadFormat, line.ends_with_noreply());
  return Ran::kDone;
}

Ran Executor::flush_all(const CommandLine& line) {
  if (line.size() > 3) {
    reply("ERROR");
    return Ran::kDone;
  }
  const bool noreply = line.ends_with_noreply();
  counters_.add(Count::kCmdFlush);
  if (!service_.options().allow_flush) {
    reply("CLIENT_ERROR flush_all not allowed", noreply);
    return Ran::kDone;
  }
  std::int32_t delay = 0;
  if (line.size() != (noreply ? 2u : 1u)) {
    const std::optional<std::int32_t> given = parse_i32(line[1]);
    if (!given) {
      reply("CLIENT_ERROR invalid exptime argument", noreply);
      return Ran::kDone;
    }
    delay = *given;
  }
  service_.store().flush(delay > 0 ? expiry(delay) : now_, now_);
  reply("OK", noreply);
  return Ran::kDone;
}

Ran Executor::stats(const CommandLine& line) {
  struct Report {
    std::string_view name;
    void (StatsReport::*write)();
  };
  static constexpr std::array kReports = {
      Report{"", &StatsReport::general},
      Report{"settings", &StatsReport::settings},
      Report{"items", &StatsReport::items},
      Report{"slabs", &StatsReport::slabs},
      Report{"sizes", &StatsReport::sizes},
      Report{"sizes_enable", &StatsReport::sizes_status},
      Report{"sizes_disable", &StatsReport::sizes_status},
      Report{"conns", &StatsReport::connections},
      Report{"partitions", &StatsReport::partitions},
  };
  const std::string_view what = line[1];
  if (what == "detail") return stats_detail(line);
  if (what == "cachedump") return stats_cachedump(line);
  if (what == "reset") {
    service_.reset_counters();
    reply("RESET");
    return Ran::kDone;
  }
  StatsReport report(service_, out_);
  for (const Report& known : kReports) {
    if (known.name != what) continue;
    (report.*known.write)();
    return Ran::kDone;
  }
  reply("ERROR");
  return Ran::kDone;
}

Ran Executor::stats_detail(const CommandLine& line) {
  const std::string_view what = line[2];
  if (what == "dump") {
    service_.prefixes().dump(out_);
  } else if (what == "on" || what == "off") {
    service_.prefixes().enable(what == "on");
    reply("OK");
  } else {
    reply("CLIENT_ERROR usage: stats detail on|off|dump");
  }
  return Ran::kDone;
}

Ran Executor::stats_cachedump(const CommandLine& line) {
  constexpr std::uint32_t kIllegal = 64;  // memcached's number of slab classes.
  const std::optional<std::uint32_t> list = parse_u32(line[2]);
  const std::optional<std::uint32_t> limit = parse_u32(line[3]);
  if (!service_.options().allow_dump) {
    reply("CLIENT_ERROR stats cachedump not allowed");
  } else if (line.size() < 4) {
    reply("CLIENT_ERROR bad command line");
  } else if (!list || !limit) {
    reply(kBadFormat);
  } else if (*list >= kIllegal) {
    reply("CLIENT_ERROR Illegal slab id");
  } else if (*list == kItemClass) {
    dump_items(service_, out_, *limit);
  } else {
    out_.append("END\r\n");
  }
  return Ran::kDone;
}

Ran Executor::memory_limit(const CommandLine& line) {
  if (line.size() != 2 && line.size() != 3) {
    reply("ERROR");
    return Ran::kDone;
  }
  const bool noreply = line.ends_with_noreply();
  const std::optional<std::uint32_t> megabytes = parse_u32(line[1]);
  if (!megabytes) {
    reply("ERROR", noreply);
  } else if (*megabytes < 8) {
    reply("MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m", noreply);
  } else if (*megabytes > 1'000'000'000) {
    reply("MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes", noreply);
  } else {
    service_.store().budget().set_limit(std::size_t{*megabytes} << 20);
    reply("OK", noreply);
  }
  return Ran::kDone;
}

Ran Executor::lru(const CommandLine& line) {
  const bool noreply = line.ends_with_noreply();
  if (line.size() < 2) {
    reply("ERROR");
  } else if (line[1] == "tune" && line.size() >= 6) {
    const std::optional<std::uint32_t> hot = parse_u32(line[2]);
    const std::optional<std::uint32_t> warm = parse_u32(line[3]);
    const std::optional<double> hot_factor = parse_decimal(line[4]);
    const std::optional<double> warm_factor = parse_decimal(line[5]);
    if (!hot || !warm || !hot_factor || !warm_factor) {
      reply("ERROR", noreply);
    } else if (*hot + *warm > 80) {
      reply("ERROR hot and warm pcts must not exceed 80", noreply);
    } else if (*hot_factor <= 0 || *warm_factor <= 0) {
      reply("ERROR hot/warm age factors must be greater than 0", noreply);
    } else {
      PartitionPolicy policy = service_.store().policy();
      policy.hot_percent = *hot;
      policy.warm_percent = *warm;
      policy.hot_max_factor = *hot_factor;
      policy.warm_max_factor = *warm_factor;
      service_.store().set_policy(policy);
      reply("OK", noreply);
    }
  } else if (line[1] == "mode" && line[2] == "segmented") {
    reply("OK", noreply);
  } else if (line[1] == "temp_ttl" && line.size() >= 3 && parse_i32(line[2]).value_or(0) < 0) {
    // There is no list for short lives, so only switching it off can be granted.
    reply("OK", noreply);
  } else {
    reply("ERROR", noreply);
  }
  return Ran::kDone;
}

Ran Executor::crawler(const CommandLine& line) {
  if (line.size() == 3 && line[1] == "crawl") {
    // Items of all classes are in the same partitions: whichever is named, all are looked at.
    const bool known = line[2] == "all" || parse_u32(line[2].substr(0, line[2].find(',')));
    reply(!service_.crawls()          ? "CLIENT_ERROR lru crawler disabled"
          : !known                    ? "BADCLASS invalid class id"
          : !service_.request_crawl() ? "BUSY currently processing crawler request"
                                      : "OK");
  } else if (line.size() == 3 && line[1] == "tocrawl") {
    reply(parse_u32(line[2]) ? "OK" : kBadFormat);
  } else if (line.size() == 3 && line[1] == "sleep") {
    const std::optional<std::uint32_t> sleep = parse_u32(line[2]);
    constexpr std::uint32_t kSecond = 1'000'000;
    reply(!sleep ? kBadFormat : *sleep > kSecond ? "CLIENT_ERROR sleep must be one second or less" : "OK");
  } else if (line.size() == 2 && line[1] == "enable") {
    const bool was_on = service_.set_crawls(true);
    reply(was_on ? "ERROR failed to start lru crawler thread" : "OK");
  } else if (line.size() == 2 && line[1] == "disable") {
    const bool was_on = service_.set_crawls(false);
    reply(was_on ? "OK" : "ERROR failed to stop lru crawler thread");
  } else {
    reply("ERROR");
  }
  return Ran::kDone;
}

Ran Executor::slabs(const CommandLine& line) {
  if (line.size() == 4 && line[1] == "reassign") {
    // There are no slabs: free memory of one size is at once usable for any other.
    reply("CLIENT_ERROR slab reassignment disabled");
  } else if (line.size() >= 3 && line[1] == "automove") {
    const bool noreply = line.ends_with_noreply();
    const std::optional<std::uint32_t> level = parse_u32(line[2]);
    if (line[2] == "ratio") {
      reply(line.size() >= 4 && parse_decimal(line[3]) ? "OK" : "ERROR", noreply);
    } else {
      reply(!level ? kBadFormat : *level <= 2 ? "OK" : "ERROR", noreply);
    }
  } else {
    reply("ERROR");
  }
  return Ran::kDone;
}

Ran Executor::shutdown(const CommandLine& line) {
  if (!service_.options().allow_shutdown) {
    reply("ERROR: shutdown not enabled");
    return Ran::kDone;
  }
  const bool graceful = line.size() == 2 && line[1] == "graceful";
  if (line.size() != 1 && !graceful) {
    reply("CLIENT_ERROR invalid shutdown mode");
    return Ran::kDone;
  }
  if (service_.hooks().stop) service_.hooks().stop(graceful);
  return Ran::kClose;
}

Ran Executor::refresh_certificates(const CommandLine& line) {
  if (!service_.hooks().refresh_certificates) {
    reply("Error TLS not enabled");
    return Ran::kDone;
  }
  const Result<void> refreshed = service_.hooks().refresh_certificates();
  reply(refreshed ? "OK" : "Error loading the certificates", line.ends_with_noreply());
  return Ran::kDone;
}

}  // namespace yonder::cache
