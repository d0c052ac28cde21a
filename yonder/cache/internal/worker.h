#pragma once
// Worker: one thread of a server with the clients that were given to it.
//
// A round of its loop: wait for events, let each client read, converse and write, ask
// other servers what has to be asked, bury who is gone. Nothing in a round blocks (but the
// name of another server, if it is one that has to be looked up; servers announce numbers).
//
// Concurrency: adopt(), begin_stop() and report() from any thread, the rest only in its
// own. Lifetime: the destructor ends the thread; service and store outlive it.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/cache/internal/channel.h"
#include "yonder/cache/internal/connection.h"
#include "yonder/cache/peers.h"
#include "yonder/cache/service.h"
#include "yonder/os/epoll.h"
#include "yonder/os/eventfd.h"
#include "yonder/sync/mutex.h"

namespace yonder::cache {

struct WorkerOptions {
  Duration idle_timeout{0};  // 0: none.
  PeersOptions peers;
};

class Worker {
 public:
  static constexpr std::size_t kBufferBytes = std::size_t{64} << 10;

  // `on_gone` is told when a connection has ended.
  static Result<std::unique_ptr<Worker>> create(Service& service, const WorkerOptions& options,
                                                std::function<void()> on_gone);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void adopt(std::unique_ptr<Channel> channel);
  // Clients may finish what they have begun; then, or when `deadline` passes, the thread ends.
  void begin_stop(Deadline deadline);
  void join();
  // Lines of `stats conns`.
  void report(Output& out);

  // For connections.
  Service& service() { return service_; }
  ThreadCounters& counters() { return counters_; }
  const os::Epoll& epoll() const { return epoll_; }
  Peers& peers() { return *peers_; }
  Seconds now() const { return now_; }
  std::span<char> read_buffer() { return {buffer_.get(), kBufferBytes}; }
  static std::uint64_t token_of(Pollable& of) { return reinterpret_cast<std::uint64_t>(&of); }
  void bury(Connection& dead) { dead_.push_back(dead.id()); }

 private:
  Worker(Service& service, const WorkerOptions& options, std::function<void()> on_gone, os::Epoll epoll,
         os::EventFd bell);
  void run();
  bool round();
  Deadline next_deadline() const;
  void take_new();
  Connection* find(std::uint64_t id);
  void close_idle(Instant now);
  void bury_dead();
  // relaxed: the bell that was rung after it makes us look.
  bool stop_wanted() const { return stop_ns_.load(std::memory_order_relaxed) != 0; }
  bool stop_due(Instant now);

  Service& service_;
  const WorkerOptions options_;
  const std::function<void()> on_gone_;
  ThreadCounters& counters_;
  const os::Epoll epoll_;
  const os::EventFd bell_;
  std::atomic<std::int64_t> stop_ns_{0};  // 0: not wanted; else the deadline.

  // Of the thread.
  const std::unique_ptr<char[]> buffer_;
  std::unique_ptr<Peers> peers_;
  std::vector<std::uint64_t> dead_;
  std::uint64_t next_id_ = 1;
  Seconds now_;
  Instant next_idle_check_;
  bool stopping_ = false;

  // Clients come from the listener's thread and are reported to any.
  sync::Mutex mutex_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Connection>> connections_ YONDER_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Channel>> new_ YONDER_GUARDED_BY(mutex_);

  std::thread thread_;
};

}  // namespace yonder::cache
