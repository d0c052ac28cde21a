#pragma once
// RoutedLoad: clients that know the map of a cluster, and check what they read.
//
// A closed loop, as in the paper: each client has one command under way, sends it to the
// server that owns the key's partition, waits for the reply and sends the next. A client
// whose map is old asks the wrong server, which forwards.
//
// Every value carries its key and a version. A get may return any version between the last
// one that was acknowledged when it was sent and the last one that was sent when its reply
// came: what is older is stale, what is missing is lost.
//
// Latencies are kept per window of 100 ms, and per server that was asked.
//
// Concurrency: begin_load() starts a thread of its own; set_owner() and completed() from any
// thread meanwhile; the rest only while it does not run. Lifetime: the destructor ends the thread.

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "yonder/base/distribution.h"
#include "yonder/base/histogram.h"
#include "yonder/base/prng.h"
#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/os/address.h"
#include "yonder/os/socket.h"

namespace yonder::bench {

inline constexpr std::size_t kMaxCacheServers = 8;
inline constexpr Duration kCacheWindow = std::chrono::milliseconds(100);

struct RoutedLoadOptions {
  std::vector<os::SocketAddress> servers;
  std::size_t partitions = 128;
  std::uint64_t keys = 2'000'000;
  std::size_t value_bytes = 128;
  double theta = 0.99;
  double get_share = 0.9;
  unsigned clients = 100;
  std::uint64_t seed = 1;
};

// What one window of time saw.
struct CacheWindow {
  struct OfServer {
    std::uint64_t requests = 0;
    std::uint64_t latency_ns = 0;  // the sum
  };
  Histogram latency_ns;
  std::array<OfServer, kMaxCacheServers> servers = {};
};

class RoutedLoad {
 public:
  // All partitions are the first server's until set_owner() says otherwise.
  explicit RoutedLoad(const RoutedLoadOptions& options);
  ~RoutedLoad();
  RoutedLoad(const RoutedLoad&) = delete;
  RoutedLoad& operator=(const RoutedLoad&) = delete;

  void set_owner(std::size_t partition, std::size_t server) {
    // relaxed: an old owner forwards.
    owners_[partition].store(static_cast<std::uint8_t>(server), std::memory_order_relaxed);
  }

  // Stores every key once. Errors: those of sockets; kMalformedFrame.
  Result<void> fill();
  // Errors: those of sockets and epoll.
  Result<void> begin_load();
  // The error that ended the load before its time, if there was one.
  Result<void> end_load();
  // Reads every key once, from any server; wrong ones are counted.
  Result<void> check_all();

  // From the beginning of the load on; the last one may be cut short.
  const std::vector<CacheWindow>& windows() const { return windows_; }
  // How often each partition was asked for since the beginning.
  std::uint64_t asked(std::size_t partition) const {
    return asked_[partition].load(std::memory_order_relaxed);
  }
  std::uint64_t requests() const { return requests_; }
  // Replies that are errors, and connections that broke.
  std::uint64_t failed() const { return failed_; }
  // Keys that were not there, values of another key, values that were overwritten long ago.
  std::uint64_t lost() const { return lost_; }
  const std::string& first_failure() const { return first_failure_; }

 private:
  class Client;

  Result<void> run(const std::stop_token& stop);
  Result<void> send_next(Client& client);
  void take_reply(Client& client, Instant now);
  void check_value(std::string_view reply, std::uint64_t key, std::uint32_t oldest);
  Result<void> check_some(const os::Socket& socket, const std::vector<std::uint64_t>& keys);
  void note_failure(std::string_view what);
  std::string value_of(std::uint64_t key, std::uint32_t version) const;
  std::size_t partition_of(std::string_view key) const;
  CacheWindow& window_at(Instant now);

  const RoutedLoadOptions options_;
  const ScrambledZipfian distribution_;
  Prng prng_;
  std::vector<std::atomic<std::uint8_t>> owners_;
  std::vector<std::atomic<std::uint64_t>> asked_;
  std::vector<std::uint32_t> acknowledged_;  // versions, by key
  std::vector<std::uint32_t> sent_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<CacheWindow> windows_;
  Instant begun_at_;
  std::uint64_t requests_ = 0;
  std::uint64_t failed_ = 0;
  std::uint64_t lost_ = 0;
  std::string first_failure_;
  Result<void> outcome_;
  std::jthread thread_;
};

}  // namespace yonder::bench
