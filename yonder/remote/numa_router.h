#pragma once
// NUMA routing: every request travels between matching sockets.
//
// A NIC belongs to a socket. A request that leaves by the NIC of another socket, or ends
// in memory of another socket, crosses the link between the sockets once more (paper
// 002, section III-D: up to 55 % more latency, half the throughput). Connecting every
// socket with every other avoids that at the price of s² connections, which crowd the
// NIC's caches. So each socket connects to its match only, and a thread that wants
// memory of another socket hands its request to that socket's *proxy*, through memory:
//
//   thread on socket 0 ──port──▶ NIC 0 ═══▶ NIC 0 ─▶ memory on socket 0
//        │ ▲ queues
//        ▼ │
//   proxy on socket 1 ──port──▶ NIC 1 ═══▶ NIC 1 ─▶ memory on socket 1
//
//   // a thread that is pinned to socket 1 (os::Numa::pin_thread_to_node):
//   remote::SocketProxy proxy(port_of_socket_1);
//   scheduler.spawn(proxy.serve());
//   // a thread on socket 0:
//   remote::NumaRouter router({.socket = 0, .port = port, .proxies = {nullptr, &proxy}});
//   Result<fabric::Completion> done = co_await router.async_perform(1, request);
//
// With one socket there are no proxies, and a routed request is the port's own: it costs
// one comparison. Which socket memory is on is the caller's knowledge: it placed it
// (os::Numa::bind_memory) and says so with its token.
//
// Bounds: a proxy's queue has `capacity` places; who finds it full waits until its
// deadline. A router's calls are bounded by the same number, so that the way back always
// has room.
//   N1  A call that was handed over is answered exactly once: by its completion, or with
//       kClosed by a proxy that was stopped. Its buffers are used until then.
//   N2  serve() ends when the proxy was stopped and has answered everything.
//
// Concurrency: a router belongs to its port's thread, serve() to that of the proxy's
// port; stop() and handing over from any thread.
// Lifetime: proxies outlive the routers that name them, routers their tasks. The thread
// that serves keeps running its scheduler until serve() has ended.

#include <atomic>
#include <coroutine>
#include <cstdint>
#include <memory>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/remote/port.h"
#include "yonder/sync/gate.h"
#include "yonder/sync/mpsc_queue.h"

namespace yonder::remote {

namespace internal {

class Inbox;

// One request on its way through another socket. Lives in the frame of who waits.
struct ProxyCall {
  fabric::WorkRequest request;
  Result<fabric::Completion> result = fail(ErrorCode::kCancelled, "through a proxy");
  Inbox* origin = nullptr;
  std::coroutine_handle<> waiter;
  // The proxy touches nothing of the origin any more. Until then the call must not
  // return: its thread might go, and with it the queue that is just being woken.
  std::atomic<bool> is_released{false};
};

// Where calls come back to: the queue of one router.
class Inbox {
 public:
  Inbox(std::size_t capacity, fabric::CompletionQueue& queue) : answers_(capacity), queue_(queue) {}
  // Any thread. There is room: a router has no more calls out.
  void put(ProxyCall& call);
  ProxyCall* try_take();

 private:
  sync::MpscQueue<ProxyCall*> answers_;
  fabric::CompletionQueue& queue_;
};

}  // namespace internal

struct ProxyOptions {
  std::uint32_t capacity = 256;  // a power of two (checked)
};

class SocketProxy {
 public:
  explicit SocketProxy(Port port, const ProxyOptions& options = {});
  SocketProxy(const SocketProxy&) = delete;
  SocketProxy& operator=(const SocketProxy&) = delete;

  // Spawn it on the scheduler of the port; ends after stop().
  Task<void> serve();
  // New calls are refused with kClosed. Any thread.
  void stop();

  std::uint64_t served() const { return served_.load(std::memory_order_relaxed); }

 private:
  friend class NumaRouter;
  Task<void> execute(internal::ProxyCall& call);

  const Port port_;
  sync::MpscQueue<internal::ProxyCall*> calls_;
  sync::Gate gate_;  // A pass for each call, from before it is handed over until it is back.
  std::atomic<std::uint64_t> served_{0};  // Relaxed: a count for reports.
};

struct RouterOptions {
  std::uint32_t socket = 0;            // of this thread
  std::vector<SocketProxy*> proxies;   // by socket; ours and those of a host with one may be null
  std::uint32_t max_outstanding = 64;  // calls through proxies; a power of two (checked)
};

struct RouterStats {
  std::uint64_t direct = 0;
  std::uint64_t proxied = 0;
};

class NumaRouter {
 public:
  NumaRouter(Port port, const RouterOptions& options);
  NumaRouter(const NumaRouter&) = delete;
  NumaRouter& operator=(const NumaRouter&) = delete;

  // To memory on `socket` of the target. Errors: Port::async_perform's; kNotFound: a
  // socket without a proxy; kClosed: its proxy was stopped.
  Task<Result<fabric::Completion>> async_perform(std::uint32_t socket, const fabric::WorkRequest& request,
                                                 Deadline deadline = {}) {
    if (socket == socket_ || proxies_.empty()) {
      ++stats_.direct;
      return port_.async_perform(request, deadline);
    }
    return through_proxy(socket, request, deadline);
  }
  Task<Result<void>> async_read(std::uint32_t socket, LocalPiece into, RemoteAddress from,
                                Deadline deadline = {});
  Task<Result<void>> async_write(std::uint32_t socket, LocalPiece from, RemoteAddress to,
                                 Deadline deadline = {});

  const Port& port() const { return port_; }
  const RouterStats& stats() const { return stats_; }

 private:
  // What the collector shares with the router: it may outlive it by a moment.
  struct Shared {
    Shared(std::size_t capacity, fabric::CompletionQueue& queue) : inbox(capacity, queue) {}
    internal::Inbox inbox;
    std::uint32_t outstanding = 0;
    bool has_collector = false;
  };

  Task<Result<fabric::Completion>> through_proxy(std::uint32_t socket, fabric::WorkRequest request,
                                                 Deadline deadline);
  // Resumes those whose answer is there, for as long as some are out.
  static Task<void> collect(Port port, std::shared_ptr<Shared> shared);

  const Port port_;
  const std::uint32_t socket_;
  const std::vector<SocketProxy*> proxies_;
  const std::uint32_t max_outstanding_;
  const std::shared_ptr<Shared> shared_;
  RouterStats stats_;
};

}  // namespace yonder::remote
