#pragma once
// A load generator for servers that speak memcached's text protocol.
//
// Closed loop, no pipelining: each connection sends a command, waits for the reply, sends
// the next. Keys are drawn from YCSB's scrambled Zipf distribution.
//
// Concurrency: run_load() makes its own threads. Lifetime: values.

#include <cstdint>
#include <string>

#include "yonder/base/histogram.h"
#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/os/address.h"
#include "yonder/os/socket.h"

namespace yonder::bench {

struct CacheLoad {
  std::uint64_t keys = 2'000'000;
  std::size_t value_bytes = 128;
  double theta = 0.99;
  double get_share = 0.9;
  unsigned threads = 2;
  unsigned connections = 32;  // Of all threads.
  Duration duration = std::chrono::seconds(2);
  std::uint64_t seed = 1;
};

struct CacheLoadResult {
  double operations_per_s = 0;
  std::uint64_t misses = 0;
  Histogram latency_ns;
};

// A deadline that only a server that does not answer reaches.
Deadline cache_patience();
Result<os::Socket> dial_cache(const os::SocketAddress& server);

// 16 bytes.
std::string cache_key(std::uint64_t number);
inline constexpr std::size_t kCacheKeyBytes = 16;

// Stores every key once. Errors: those of sockets; kMalformedFrame (a reply that is none).
Result<void> fill_cache(const os::SocketAddress& server, const CacheLoad& load);
Result<CacheLoadResult> run_load(const os::SocketAddress& server, const CacheLoad& load);

}  // namespace yonder::bench
