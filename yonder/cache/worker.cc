#include "yonder/cache/internal/worker.h"

#include <fmt/format.h>
#include <pthread.h>

#include <array>
#include <utility>

#include "yonder/cache/server.h"
#include "yonder/os/steady_clock.h"

namespace yonder::cache {
namespace {

constexpr Duration kIdleCheck = std::chrono::seconds(1);

}  // namespace

Worker::Worker(Service& service, const WorkerOptions& options, std::function<void()> on_gone, os::Epoll epoll,
               os::EventFd bell)
    : service_(service),
      options_(options),
      on_gone_(std::move(on_gone)),
      counters_(service.make_counters()),
      epoll_(std::move(epoll)),
      bell_(std::move(bell)),
      buffer_(new char[kBufferBytes]),
      now_(service.now()) {
  peers_ = std::make_unique<Peers>(service.store(), epoll_, options.peers,
                                   [this](const Question& question, const PeerReply& reply) {
                                     Connection* asker = find(question.connection);
                                     if (asker != nullptr) asker->answer(question, reply);
                                   });
}

Result<std::unique_ptr<Worker>> Worker::create(Service& service, const WorkerOptions& options,
                                               std::function<void()> on_gone) {
  YONDER_TRY(epoll, os::Epoll::create());
  YONDER_TRY(bell, os::EventFd::create());
  std::unique_ptr<Worker> worker(
      new Worker(service, options, std::move(on_gone), std::move(epoll), std::move(bell)));
  YONDER_TRY_VOID(worker->epoll_.add(worker->bell_.fd(), os::kEpollReadable, 0));
  worker->thread_ = std::thread([raw = worker.get()] { raw->run(); });
  ::pthread_setname_np(worker->thread_.native_handle(), kWorkerThreadName);
  return worker;
}

Worker::~Worker() {
  begin_stop(Deadline::at(Instant::from_ns(1)));
  join();
}

void Worker::join() {
  if (thread_.joinable()) thread_.join();
}

void Worker::adopt(std::unique_ptr<Channel> channel) {
  {
    const sync::LockGuard lock(mutex_);
    new_.push_back(std::move(channel));
  }
  bell_.ring();
}

void Worker::begin_stop(Deadline deadline) {
  stop_ns_.store(deadline.instant().ns(), std::memory_order_relaxed);
  bell_.ring();
}

Connection* Worker::find(std::uint64_t id) {
  const sync::LockGuard lock(mutex_);
  const auto found = connections_.find(id);
  return found == connections_.end() ? nullptr : found->second.get();
}

void Worker::run() {
  while (round()) {
  }
  const sync::LockGuard lock(mutex_);
  for (std::size_t i = 0; i < connections_.size() + new_.size(); ++i) on_gone_();
  connections_.clear();
  new_.clear();
}

bool Worker::round() {
  std::array<os::EpollEvent, os::Epoll::kMaxEvents> events;
  const auto ready = epoll_.wait(events, next_deadline());
  now_ = service_.now();
  if (ready) {
    for (const os::EpollEvent& event : *ready) {
      if (event.token == 0) {
        bell_.take();
      } else {
        reinterpret_cast<Pollable*>(event.token)->on_events(event.bits);
      }
    }
  }
  take_new();
  if (peers_->next_tick() || stopping_ || options_.idle_timeout.count() > 0 || stop_wanted()) {
    const Instant now = os::SteadyClock::read();
    peers_->tick(now);
    close_idle(now);
    if (stop_due(now)) return false;
  }
  bury_dead();
  return true;
}

Deadline Worker::next_deadline() const {
  // Nobody needs this thread to wake up by itself, but nothing here waits for ever.
  constexpr Duration kLongest = std::chrono::seconds(10);
  constexpr Duration kWhileStopping = std::chrono::milliseconds(10);
  const Instant now = os::SteadyClock::read();
  Instant when = now + (stopping_                           ? kWhileStopping
                        : options_.idle_timeout.count() > 0 ? kIdleCheck
                                                            : kLongest);
  if (const std::optional<Instant> tick = peers_->next_tick()) when = std::min(when, *tick);
  return Deadline::at(std::max(when, Instant::from_ns(1)));
}

void Worker::take_new() {
  std::vector<std::unique_ptr<Channel>> fresh;
  {
    const sync::LockGuard lock(mutex_);
    if (new_.empty()) return;
    fresh.swap(new_);
  }
  for (std::unique_ptr<Channel>& channel : fresh) {
    const std::uint64_t id = next_id_++;
    auto connection = std::make_unique<Connection>(*this, id, std::move(channel));
    const Result<void> added =
        epoll_.add(connection->channel().socket().fd(), os::kEpollReadable, token_of(*connection));
    if (!added) {
      on_gone_();
      continue;
    }
    const sync::LockGuard lock(mutex_);
    connections_.emplace(id, std::move(connection));
  }
}

void Worker::close_idle(Instant now) {
  if (options_.idle_timeout.count() == 0 || now < next_idle_check_) return;
  next_idle_check_ = now + kIdleCheck;
  const auto limit =
      static_cast<Seconds>(std::chrono::duration_cast<std::chrono::seconds>(options_.idle_timeout).count());
  std::vector<Connection*> idle;
  {
    const sync::LockGuard lock(mutex_);
    for (const auto& [id, connection] : connections_) {
      if (connection->last_command() + limit <= now_ && !connection->dead()) idle.push_back(connection.get());
    }
  }
  for (Connection* connection : idle) {
    counters_.add(Count::kIdleKicks);
    connection->kill();
  }
}

bool Worker::stop_due(Instant now) {
  if (!stop_wanted()) return false;
  std::vector<Connection*> open;
  {
    const sync::LockGuard lock(mutex_);
    for (const auto& [id, connection] : connections_) {
      if (!connection->dead()) open.push_back(connection.get());
    }
  }
  stopping_ = true;
  std::size_t busy = 0;
  for (Connection* connection : open) {
    if (connection->idle()) {
      connection->kill();
    } else {
      ++busy;
    }
  }
  return busy == 0 || Deadline::at(Instant::from_ns(stop_ns_.load(std::memory_order_relaxed))).passed(now);
}

void Worker::bury_dead() {
  if (dead_.empty()) return;
  const sync::LockGuard lock(mutex_);
  for (const std::uint64_t id : dead_) {
    if (connections_.erase(id) > 0) on_gone_();
  }
  dead_.clear();
}

void Worker::report(Output& out) {
  const sync::LockGuard lock(mutex_);
  for (const auto& [id, connection] : connections_) {
    const Connection::Ends& ends = connection->ends();
    const int fd = ends.fd;
    out.append_line(fmt::format("STAT {}:addr {}", fd, ends.peer));
    out.append_line(fmt::format("STAT {}:listen_addr {}", fd, ends.local));
    out.append_line(fmt::format("STAT {}:state {}", fd, connection->state_name()));
    out.append_line(
        fmt::format("STAT {}:secs_since_last_cmd {}", fd, service_.now() - connection->last_command()));
  }
}

}  // namespace yonder::cache
