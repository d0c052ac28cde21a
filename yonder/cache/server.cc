#include "yonder/cache/server.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>
#include <utility>

#include "yonder/base/log.h"
#include "yonder/cache/internal/worker.h"
#include "yonder/os/epoll.h"
#include "yonder/os/eventfd.h"
#include "yonder/os/socket.h"
#include "yonder/os/steady_clock.h"

namespace yonder::cache {
namespace {

constexpr std::string_view kTooMany = "ERROR Too many open connections\r\n";

bool is_path(const std::string& address) {
  return address.starts_with('/') || address.starts_with('.') || address.starts_with('@');
}

struct Listener {
  os::Socket socket;
  ListenAt at;
  std::string address;
};

// A socket file that nobody listens at any more is in the way; one that is in use is not ours to remove.
void remove_stale_socket(const os::SocketAddress& address, const std::string& path) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) return;
  const Deadline soon = Deadline::at(os::SteadyClock::read() + std::chrono::milliseconds(200));
  const auto probe = os::Socket::connect(address, {}, soon);
  if (!probe && probe.error() == ErrorCode::kConnectionRefused) ::unlink(path.c_str());
}

Result<Listener> listen_at_path(const ListenAt& at, int backlog) {
  YONDER_TRY(address, os::SocketAddress::unix_name(at.address));
  const bool file = !at.address.starts_with('@');
  if (file) remove_stale_socket(address, at.address);
  // Under a mask, so that nobody gets in between the creation and a chmod.
  const mode_t before = ::umask(static_cast<mode_t>(~at.unix_mode & 0777));
  auto socket = os::Socket::listen(address, {.backlog = backlog});
  ::umask(before);
  if (!socket) return std::unexpected(socket.error());
  return Listener{*std::move(socket), at, at.address};
}

Result<Listener> listen_at(const ListenAt& at, int backlog) {
  if (is_path(at.address)) return listen_at_path(at, backlog);
  YONDER_TRY(addresses, os::SocketAddress::resolve(at.address, {.for_listening = true}));
  YONDER_TRY(socket, os::Socket::listen(addresses.front(), {.backlog = backlog}));
  YONDER_TRY(local, socket.local_address());
  return Listener{std::move(socket), at, local.to_string()};
}

}  // namespace

struct Server::State {
  State(Service& served, const ServerOptions& given) : service(served), options(given) {}

  void accept_all(std::size_t listener);
  void welcome(os::Socket socket, const Listener& listener);
  void listen_loop();
  void upkeep_loop();
  void crawl_all();
  void report_server(Output& out) const;
  void report_listeners(Output& out) const;

  Service& service;
  const ServerOptions options;
  std::vector<Listener> listeners;
  std::vector<std::unique_ptr<Worker>> workers;
  std::optional<os::Epoll> epoll;
  std::optional<os::EventFd> bell;
  std::size_t next_worker = 0;
  std::atomic<std::uint64_t> current{0};
  std::atomic<std::uint64_t> total{0};
  std::atomic<std::uint64_t> rejected{0};
  std::atomic<std::uint64_t> juggles{0};  // Rounds of upkeep.
  std::atomic<bool> stopping{false};
  std::thread listening;
  std::thread upkeep;
  bool stopped = false;
};

void Server::State::accept_all(std::size_t index) {
  // Others may come to this listener for ever: the loop sees to the other ones as well.
  constexpr int kPerRound = 64;
  for (int i = 0; i < kPerRound; ++i) {
    Result<os::Socket> socket = listeners[index].socket.try_accept();
    if (!socket) {
      // Out of descriptors: the client waits in the backlog, and we do not spin on it.
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      return;
    }
    if (!socket->valid()) return;
    welcome(*std::move(socket), listeners[index]);
  }
}

void Server::State::welcome(os::Socket socket, const Listener& listener) {
  // relaxed: counts; the limit may be missed by those that end at this moment.
  if (current.load(std::memory_order_relaxed) >= options.max_connections) {
    rejected.fetch_add(1, std::memory_order_relaxed);
    const auto sent = socket.try_send(std::as_bytes(std::span(kTooMany)));
    if (!sent) log_debug("cache", "a client that was refused did not listen");
    return;
  }
  if (!is_path(listener.at.address)) {
    const bool set = socket.set_no_delay(true) && socket.set_keep_alive({.idle = std::chrono::seconds(60)});
    if (!set) return;
  }
  std::unique_ptr<Channel> channel;
  if (listener.at.tls) {
    auto wrapped = options.tls->wrap(std::move(socket));
    if (!wrapped) return;
    channel = *std::move(wrapped);
  } else if (options.peers.tls != nullptr) {
    channel = options.peers.tls->welcome(std::move(socket));
  } else {
    channel = make_plain_channel(std::move(socket));
  }
  current.fetch_add(1, std::memory_order_relaxed);
  total.fetch_add(1, std::memory_order_relaxed);
  workers[next_worker++ % workers.size()]->adopt(std::move(channel));
}

void Server::State::listen_loop() {
  std::array<os::EpollEvent, 16> events;
  while (!stopping.load(std::memory_order_acquire)) {
    const Deadline later = Deadline::at(os::SteadyClock::read() + std::chrono::seconds(10));
    const auto ready = epoll->wait(events, later);
    if (!ready) continue;
    for (const os::EpollEvent& event : *ready) {
      if (event.token < listeners.size()) accept_all(event.token);
    }
  }
}

void Server::State::upkeep_loop() {
  // 128 buckets of one partition every 20 ms: two million items are gone through in five
  // minutes. Where some have expired, others have too.
  constexpr Duration kPause = std::chrono::microseconds(kCrawlPauseMicroseconds);
  constexpr Duration kShortPause = std::chrono::milliseconds(1);
  while (!stopping.load(std::memory_order_acquire)) {
    const bool busy = service.store().crawl(service.now(), service.crawls());
    juggles.fetch_add(1, std::memory_order_relaxed);
    if (service.is_crawl_wanted()) crawl_all();
    if (bell->wait(Deadline::at(os::SteadyClock::read() + (busy ? kShortPause : kPause)))) bell->ring();
  }
}

void Server::State::crawl_all() {
  for (std::size_t i = 0; i < service.store().partitions(); ++i) {
    if (stopping.load(std::memory_order_acquire)) break;
    service.store().crawl_all(i, service.now());
  }
  service.end_crawl();
}

void Server::State::report_listeners(Output& out) const {
  for (const Listener& listener : listeners) {
    const int fd = listener.socket.fd().get();
    const char* kind = is_path(listener.address) ? "unix:" : "tcp:";
    out.append_line(fmt::format("STAT {}:addr {}{}", fd, kind, listener.address));
    out.append_line(fmt::format("STAT {}:state conn_listening", fd));
    out.append_line(fmt::format("STAT {}:secs_since_last_cmd {}", fd, service.now() - service.started()));
  }
}

void Server::State::report_server(Output& out) const {
  const auto line = [&](const char* name, std::uint64_t value) {
    out.append_line(fmt::format("STAT {} {}", name, value));
  };
  line("max_connections", options.max_connections);
  line("curr_connections", current.load(std::memory_order_relaxed));
  line("total_connections", total.load(std::memory_order_relaxed));
  line("rejected_connections", rejected.load(std::memory_order_relaxed));
  line("connection_structures", current.load(std::memory_order_relaxed));
  line("reserved_fds", kReservedFds);
  line("read_buf_count", options.threads);
  line("read_buf_bytes", options.threads * Worker::kBufferBytes);
  line("threads", options.threads);
  line("lru_maintainer_juggles", juggles.load(std::memory_order_relaxed));
  // Who is over the limit is told so; nobody waits.
  line("accepting_conns", stopping.load(std::memory_order_relaxed) ? 0 : 1);
}

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<Server>> Server::create(Service& service, const ServerOptions& options) {
  if (options.listen.empty() || options.threads == 0) {
    return fail(ErrorCode::kInvalidArgument, "a server needs an address and a thread");
  }
  auto owned = std::make_unique<State>(service, options);
  State& state = *owned;
  YONDER_TRY(epoll, os::Epoll::create());
  YONDER_TRY(bell, os::EventFd::create());
  state.epoll.emplace(std::move(epoll));
  state.bell.emplace(std::move(bell));
  for (const ListenAt& at : options.listen) {
    YONDER_TRY(listener, listen_at(at, options.backlog));
    state.listeners.push_back(std::move(listener));
  }
  const WorkerOptions worker_options{.idle_timeout = options.idle_timeout, .peers = options.peers};
  for (std::size_t i = 0; i < options.threads; ++i) {
    YONDER_TRY(worker, Worker::create(service, worker_options,
                                      [&state] { state.current.fetch_sub(1, std::memory_order_relaxed); }));
    state.workers.push_back(std::move(worker));
  }
  std::unique_ptr<Server> server(new Server(std::move(owned)));
  Service::Hooks hooks = service.hooks();
  hooks.report_server = [&state](Output& out) { state.report_server(out); };
  hooks.report_connections = [&state](Output& out) {
    state.report_listeners(out);
    for (const auto& worker : state.workers) worker->report(out);
  };
  service.set_hooks(std::move(hooks));
  for (std::size_t i = 0; i < state.listeners.size(); ++i) {
    YONDER_TRY_VOID(state.epoll->add(state.listeners[i].socket.fd(), os::kEpollReadable, i));
  }
  YONDER_TRY_VOID(state.epoll->add(state.bell->fd(), os::kEpollReadable, UINT64_MAX));
  state.listening = std::thread([&state] { state.listen_loop(); });
  state.upkeep = std::thread([&state] { state.upkeep_loop(); });
  return server;
}

Server::~Server() { stop(Deadline::at(Instant::from_ns(1))); }

void Server::stop(Deadline deadline) {
  if (std::exchange(state_->stopped, true)) return;
  // release: pairs with the loops; what was done before is done.
  state_->stopping.store(true, std::memory_order_release);
  state_->bell->ring();
  if (state_->listening.joinable()) state_->listening.join();
  if (state_->upkeep.joinable()) state_->upkeep.join();
  for (const Listener& listener : state_->listeners) {
    if (is_path(listener.address) && !listener.address.starts_with('@')) ::unlink(listener.address.c_str());
  }
  state_->listeners.clear();
  for (const auto& worker : state_->workers) worker->begin_stop(deadline);
  for (const auto& worker : state_->workers) worker->join();
}

std::vector<std::string> Server::addresses() const {
  std::vector<std::string> out;
  for (const Listener& listener : state_->listeners) out.push_back(listener.address);
  return out;
}

Server::Connections Server::connections() const {
  return {.current = state_->current.load(std::memory_order_relaxed),
          .total = state_->total.load(std::memory_order_relaxed),
          .rejected = state_->rejected.load(std::memory_order_relaxed)};
}

}  // namespace yonder::cache
