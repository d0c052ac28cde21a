#pragma once
// What the pollers, the workers and the Server of one server share.
//
// Concurrency: fields say. Lifetime: outlives its threads.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "yonder/base/id.h"
#include "yonder/fabric/fabric.h"
#include "yonder/rpc/handler.h"
#include "yonder/rpc/internal/method_metrics.h"
#include "yonder/rpc/internal/receive_pool.h"
#include "yonder/rpc/internal/work_queue.h"
#include "yonder/rpc/server.h"
#include "yonder/sync/mutex.h"

namespace yonder::rpc {

struct RegisteredMethod {
  MethodId method{0};
  MethodOptions options;
  Handler handler;
  std::optional<MethodMetrics> metrics;  // Set by start(), if the server has a registry.

  void count_call() const {
    if (metrics) metrics->calls.add();
  }
  void count_error() const {
    if (metrics) metrics->errors.add();
  }
};

// Calls the handler; what it throws ends here and becomes kHandlerFailed.
void run_handler(const RegisteredMethod& method, const Context& context, std::span<const std::byte> payload,
                 Exchange& exchange);

// Method ids are small numbers, so finding one is an index.
inline constexpr std::size_t kMaxMethods = 1024;

// Sends outstanding per connection: twice the credits, because a send may count
// until a later one has completed, while its client has long been given a credit
// and used it.
inline std::uint32_t endpoint_depth(const ServerOptions& options) {
  return std::max<std::uint32_t>(16, 2 * options.credits);
}
// Requests of one connection that may wait to be polled: what it was granted, and
// one more, by which a client that ignores its credits is found out.
inline std::uint32_t endpoint_receives(const ServerOptions& options) { return options.credits + 1u; }
// Buffers for requests: as many as workers can hold on to, and 128 more for each
// poller, so that a full work queue never keeps a poller from refusing.
inline std::uint32_t receive_buffers(const ServerOptions& options) {
  return 128 * std::max(options.pollers, 1u) +
         (options.workers > 0 ? options.work_queue + options.workers : 0);
}

struct ServerCore {
  explicit ServerCore(const ServerOptions& o);
  ~ServerCore();

  // Fixed once the server serves.
  const ServerOptions options;
  std::array<std::unique_ptr<RegisteredMethod>, kMaxMethods> methods;
  const Clock* clock = nullptr;
  std::unique_ptr<ReceivePool> receives;
  std::vector<std::unique_ptr<Poller>> pollers;

  // Any thread.
  std::atomic<bool> serving = false;
  std::atomic<bool> stopping = false;  // Refuse new requests, finish, say goodbye.
  std::atomic<bool> abandon = false;   // Close the connections now.
  std::atomic<bool> exit = false;      // Pollers: leave when nothing is executing.
  std::atomic<std::uint64_t> epoch = 0;
  WorkQueue work;

  sync::Mutex accept_mutex;  // Taken before a poller's inbox_mutex.
  std::unique_ptr<fabric::Listener> listener YONDER_GUARDED_BY(accept_mutex);
  bool stopped YONDER_GUARDED_BY(accept_mutex) = false;
};

}  // namespace yonder::rpc
