#pragma once
// Service: what all conversations of a server share: the store, the settings that
// commands may see or change, the clock, the counters.
//
// Concurrency: any thread. Lifetime: outlives the conversations; the store outlives it.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "yonder/base/time.h"
#include "yonder/cache/auth.h"
#include "yonder/cache/counters.h"
#include "yonder/cache/output.h"
#include "yonder/cache/prefix_stats.h"
#include "yonder/cache/store.h"
#include "yonder/sync/mutex.h"

namespace yonder::cache {

// The version of memcached whose protocol this is; clients ask for it.
inline constexpr std::string_view kProtocolVersion = "1.6.18";

// How long whoever looks after the store rests in between.
inline constexpr std::uint64_t kCrawlPauseMicroseconds = 20'000;

// As of the command line; what `stats settings` shows.
struct ServiceOptions {
  std::size_t memory_bytes = std::size_t{64} << 20;
  std::size_t max_item_bytes = std::size_t{1} << 20;
  bool allow_shutdown = false;  // -A
  bool allow_flush = true;      // not -F
  bool allow_dump = true;       // not -X
  char prefix_delimiter = ':';  // -D
  bool prefix_stats = false;    // -D given
  bool use_cas = true;          // not -C: then clients see 0, and cas matches nothing
  std::uint32_t verbosity = 0;
  // Only who has proved the cluster's key may say that it is a server.
  bool servers_have_key = false;
  // Further settings, shown as they are.
  std::vector<std::pair<std::string, std::string>> shown;
};

class Service {
 public:
  // Seconds of the Unix era, by the machine's steady clock since the start, so that
  // somebody who sets the date expires nothing.
  explicit Service(Store& store, const ServiceOptions& options);

  Store& store() { return store_; }
  const ServiceOptions& options() const { return options_; }
  Seconds now() const;
  Seconds started() const { return started_; }

  // For one thread, for as long as the service lives.
  ThreadCounters& make_counters();
  // Since the start, or the last reset.
  CounterValues counters() const;
  void reset_counters();

  // Null: no authentication.
  void set_auth(std::unique_ptr<AuthTokens> tokens) { auth_ = std::move(tokens); }
  const AuthTokens* auth() const { return auth_.get(); }
  PrefixStats& prefixes() { return prefixes_; }

  // What the server around it can do; set before it serves.
  struct Hooks {
    std::function<void(bool graceful)> stop;             // The shutdown command.
    std::function<void(Output&)> report_connections;     // stats conns
    std::function<void(Output&)> report_server;          // The server's part of stats.
    std::function<Result<void>()> refresh_certificates;  // refresh_certs; empty without TLS.
  };
  void set_hooks(Hooks hooks) { hooks_ = std::move(hooks); }
  const Hooks& hooks() const { return hooks_; }

  std::uint32_t verbosity() const { return verbosity_.load(std::memory_order_relaxed); }
  void set_verbosity(std::uint32_t level) { verbosity_.store(level, std::memory_order_relaxed); }
  // False while the crawler is switched off by command.
  bool crawls() const { return crawls_.load(std::memory_order_relaxed); }
  bool set_crawls(bool on) { return crawls_.exchange(on, std::memory_order_relaxed); }
  // A look at all items at once, by whoever looks after the store. False: one is under way.
  bool request_crawl() { return !crawl_wanted_.exchange(true, std::memory_order_relaxed); }
  bool is_crawl_wanted() const { return crawl_wanted_.load(std::memory_order_relaxed); }
  void end_crawl() { crawl_wanted_.store(false, std::memory_order_relaxed); }

 private:
  Store& store_;
  const ServiceOptions options_;
  const Instant started_at_;
  const Seconds started_;
  std::unique_ptr<AuthTokens> auth_;
  PrefixStats prefixes_;
  Hooks hooks_;
  std::atomic<std::uint32_t> verbosity_;
  std::atomic<bool> crawls_{true};
  std::atomic<bool> crawl_wanted_{false};
  mutable sync::Mutex mutex_;
  std::vector<std::unique_ptr<ThreadCounters>> counters_ YONDER_GUARDED_BY(mutex_);
  CounterValues at_reset_ YONDER_GUARDED_BY(mutex_){};
};

}  // namespace yonder::cache
