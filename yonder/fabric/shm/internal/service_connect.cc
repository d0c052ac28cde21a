// Doors, handshakes, and connecting again.
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "yonder/base/check.h"
#include "yonder/fabric/shm/internal/service.h"

namespace yonder::fabric::shm {
namespace {

constexpr Duration kHandshakeLimit = std::chrono::seconds(2);
// Half-done handshakes at a time; beyond it the oldest goes.
constexpr std::size_t kMaxIncoming = 256;
// Out of descriptors: how long new connections wait in the kernel's backlog.
constexpr Duration kDoorPause = std::chrono::milliseconds(50);

std::uint32_t completions_of(const EndpointOptions& options) { return options.depth + options.receive_depth; }

bool is_allowed(const os::Socket& socket, const Place& place) {
  if (place.any_user) return true;
  const auto credentials = socket.peer_credentials();
  return credentials && (credentials->uid == ::geteuid() || credentials->uid == 0);
}

Result<os::Socket> try_accept(Door& door) {
  const std::lock_guard lock(door.mutex);
  if (door.closed) return os::Socket();
  return door.socket.try_accept();
}

// A socket file whose owner died refuses connections; it may be replaced.
bool remove_stale_socket(const Place& place) {
  if (place.path.empty()) return false;
  const auto probe = os::Socket::connect(place.socket, {.kind = os::SocketKind::kSeqpacket},
                                         Deadline::at(os::SteadyClock::read() + std::chrono::seconds(1)));
  return !probe && probe.error() == ErrorCode::kConnectionRefused && ::unlink(place.path.c_str()) == 0;
}

}  // namespace

// ---------------------------------------------------------------- doors

Result<std::shared_ptr<Door>> Service::listen(Place place, const ListenOptions& options) {
  const os::ListenOptions how{.kind = os::SocketKind::kSeqpacket};
  auto socket = os::Socket::listen(place.socket, how);
  if (!socket && socket.error() == ErrorCode::kAlreadyExists && remove_stale_socket(place))
    socket = os::Socket::listen(place.socket, how);
  if (!socket) return std::unexpected(socket.error());
  auto door = std::make_shared<Door>();
  door->place = std::move(place);
  door->options = options;
  door->socket = std::move(*socket);
  const Lock lock(mutex_);
  door->token = next_token_++;
  watched_.emplace(door->token, door);
  if (auto added = epoll_.add(door->socket.fd(), os::kEpollReadable, door->token); !added) {
    watched_.erase(door->token);
    return std::unexpected(added.error());
  }
  return door;
}

void Service::close(const std::shared_ptr<Door>& door) {
  const std::lock_guard admission(door->admission);
  std::deque<std::shared_ptr<Link>> unwanted;
  {
    const Lock lock(mutex_);
    if (watched_.erase(door->token) == 0) return;
    (void)epoll_.remove(door->socket.fd());
    std::erase_if(incoming_, [&](const auto& item) {
      if (item.second->door != door) return false;
      watched_.erase(item.first);
      return true;
    });
    const std::lock_guard door_lock(door->mutex);
    door->closed = true;
    unwanted.swap(door->waiting);
    if (door->options.passive) {
      for (const auto& [token, watched] : watched_) {
        const auto* connected = std::get_if<Connected>(&watched);
        if (connected != nullptr && connected->door == door) unwanted.push_back(connected->link);
      }
    }
  }
  door->arrived.notify_all();
  {
    const std::lock_guard door_lock(door->mutex);
    door->socket = os::Socket();
  }
  if (!door->place.path.empty()) ::unlink(door->place.path.c_str());
  for (const auto& link : unwanted) {
    drop(link);
    if (!door->options.passive) unmake_queue_end(*door, *link);
  }
}

// Waiting connections would wake us at once and for ever.
void Service::pause(const std::shared_ptr<Door>& door) {
  const Lock lock(mutex_);
  const std::lock_guard door_lock(door->mutex);
  if (door->closed) return;
  (void)epoll_.modify(door->socket.fd(), 0, door->token);
  paused_doors_.emplace_back(clock_.now() + kDoorPause, door);
}

void Service::take_connections(const std::shared_ptr<Door>& door) {
  for (int i = 0; i < 64; ++i) {
    auto socket = try_accept(*door);
    if (!socket && socket.error() == ErrorCode::kResourceExhausted) return pause(door);
    if (!socket || !socket->valid()) return;
    auto incoming = std::make_shared<Incoming>(door, std::move(*socket), clock_.now() + kHandshakeLimit);
    if (!is_allowed(incoming->socket, door->place)) {
      say_refusal(incoming->socket, ErrorCode::kAuthenticationFailed);
      continue;
    }
    std::pair<std::uint64_t, std::shared_ptr<Incoming>> oldest;
    {
      const Lock lock(mutex_);
      const std::uint64_t token = next_token_++;
      if (!epoll_.add(incoming->socket.fd(), os::kEpollReadable, token)) continue;
      watched_.emplace(token, incoming);
      incoming_.emplace(token, incoming);
      if (incoming_.size() > kMaxIncoming) oldest = *incoming_.begin();
    }
    if (oldest.second) refuse(oldest.first, oldest.second, ErrorCode::kResourceExhausted);
  }
}

// ---------------------------------------------------------------- hello

void Service::forget_incoming(std::uint64_t token, const std::shared_ptr<Incoming>& incoming) {
  const Lock lock(mutex_);
  incoming_.erase(token);
  if (watched_.erase(token) != 0 && incoming->socket.valid()) (void)epoll_.remove(incoming->socket.fd());
}

void Service::refuse(std::uint64_t token, const std::shared_ptr<Incoming>& incoming, ErrorCode status) {
  say_refusal(incoming->socket, status);
  forget_incoming(token, incoming);
}

void Service::take_hello(std::uint64_t token, const std::shared_ptr<Incoming>& incoming) {
  std::array<std::byte, kMaxPacket> buffer;
  auto received = receive_packet(incoming->socket, buffer);
  if (!received) {
    const ErrorCode code = received.error().code();
    return refuse(token, incoming, code == ErrorCode::kResourceExhausted ? code : ErrorCode::kMalformedFrame);
  }
  if (received->bytes == 0) return;
  const std::span<const std::byte> packet(buffer.data(), received->bytes);
  const auto type = packet_type(packet);
  const auto hello = decode_hello(packet);
  if (!type || *type != PacketType::kHello || !hello)
    return refuse(token, incoming, ErrorCode::kMalformedFrame);
  forget_incoming(token, incoming);
  const std::lock_guard admission(incoming->door->admission);
  const auto admitted = admit(incoming, *hello, std::move(received->fds));
  if (!admitted && incoming->socket.valid()) say_refusal(incoming->socket, admitted.error().code());
}

Result<End> Service::make_end(Door& door) {
  const ListenOptions& options = door.options;
  End end{.options = options.endpoint, .identity = options.identity, .foreign = door.place.foreign};
  {
    const std::lock_guard lock(door.mutex);
    if (door.closed) return fail(ErrorCode::kConnectionRefused, "accept: the listener is closed");
    if (door.connections >= options.max_connections)
      return fail(ErrorCode::kResourceExhausted, "accept: max_connections", options.max_connections);
  }
  if (!options.passive) {
    end.queue = static_cast<ShmCompletionQueue*>(
        options.completion_queues[door.next_queue++ % options.completion_queues.size()]);
    YONDER_TRY_VOID(end.queue->reserve(completions_of(options.endpoint)));
    auto entry = end.queue->take_entry();
    if (!entry) {
      end.queue->unreserve(completions_of(options.endpoint));
      return std::unexpected(entry.error());
    }
    end.contact.queue_line = end.queue->line();
    end.contact.queue_entry = *entry;
    if (options.endpoint.receive_queue != nullptr)
      end.contact.receive_line = static_cast<ShmReceiveQueue*>(options.endpoint.receive_queue)->line();
  }
  const Lock lock(mutex_);
  auto service_entry = board_.take();
  if (!service_entry) {
    release_queue(end);
    return std::unexpected(service_entry.error());
  }
  end.contact.service_entry = *service_entry;
  return end;
}

void Service::release_queue(const End& end) {
  if (end.queue == nullptr) return;
  end.queue->give_entry(end.contact.queue_entry);
  end.queue->unreserve(completions_of(end.options));
}

// For a connection that no endpoint was made of.
void Service::unmake_queue_end(Door& door, const Link& link) {
  for (CompletionQueue* queue : door.options.completion_queues) {
    auto* const candidate = static_cast<ShmCompletionQueue*>(queue);
    if (candidate->line() != link.parts().ours.queue_line) continue;
    release_queue({.options = door.options.endpoint, .queue = candidate, .contact = link.parts().ours});
    return;
  }
}

Result<void> Service::admit(const std::shared_ptr<Incoming>& incoming, const HelloPacket& hello,
                            std::vector<os::Fd> fds) {
  if (hello.hello.identity.epoch.value() < epoch_.load())
    return fail(ErrorCode::kStaleEpoch, "accept: the initiator's epoch is old");
  const std::shared_ptr<Door>& door = incoming->door;
  YONDER_TRY(end, make_end(*door));
  auto parts = say_welcome(incoming->socket, self_, end, hello, std::move(fds), door->options.greeting);
  if (!parts) {
    release_queue(end);
    const Lock lock(mutex_);
    board_.give(end.contact.service_entry);
    return std::unexpected(parts.error());
  }
  const bool passive = end.queue == nullptr;
  auto link =
      std::make_shared<Link>(std::move(*parts), next_endpoint(), passive ? nullptr : end.queue->mailbox());
  {
    const std::lock_guard door_lock(door->mutex);
    ++door->connections;
  }
  Lock lock(mutex_);
  auto added = add_link({link, door, nullptr}, lock);
  if (!added) {
    lock.unlock();
    release_queue(end);
    const std::lock_guard door_lock(door->mutex);
    --door->connections;
    return added;
  }
  if (passive) return {};
  const std::lock_guard door_lock(door->mutex);
  door->waiting.push_back(std::move(link));
  door->arrived.notify_one();
  return {};
}

// ---------------------------------------------------------------- links

Result<void> Service::add_link(Connected connected, const Lock&) {
  Link& link = *connected.link;
  link.token = next_token_++;
  const std::uint32_t bits = os::kEpollReadable | os::kEpollPeerClosed;
  const std::uint32_t entry = link.parts().ours.service_entry;
  if (auto added = epoll_.add(link.parts().socket.fd(), bits, link.token); !added) {
    board_.give(entry);
    return added;
  }
  if (by_entry_.size() <= entry) by_entry_.resize(std::size_t{entry} + 1);
  by_entry_[entry] = connected.link;
  watched_.emplace(link.token, std::move(connected));
  return {};
}

bool Service::remove_link(const std::shared_ptr<Link>& link, Connected& removed) {
  const Lock lock(mutex_);
  const auto found = watched_.find(link->token);
  if (found == watched_.end()) return false;
  removed = std::get<Connected>(std::move(found->second));
  watched_.erase(found);
  (void)epoll_.remove(link->parts().socket.fd());
  const std::uint32_t entry = link->parts().ours.service_entry;
  by_entry_[entry] = nullptr;
  board_.give(entry);
  link->set_lost();
  link->cut();
  if (removed.door) {
    const std::lock_guard door_lock(removed.door->mutex);
    --removed.door->connections;
  }
  return true;
}

void Service::drop(const std::shared_ptr<Link>& link) {
  Connected removed;
  (void)remove_link(link, removed);
}

// ---------------------------------------------------------------- connecting

End Service::end_of(const Connector& connector) const {
  return {.options = connector.options.endpoint,
          .identity = connector.options.identity,
          .queue = connector.queue,
          .contact = connector.contact,
          .foreign = connector.place.foreign};
}

// Starts a handshake. On failure nothing is left over.
Result<void> Service::attempt(const std::shared_ptr<Connector>& connector, const Lock&) {
  connector->is_paused = false;
  YONDER_TRY(queue_entry, connector->queue->take_entry());
  connector->contact.queue_line = connector->queue->line();
  connector->contact.queue_entry = queue_entry;
  auto* const shared = static_cast<ShmReceiveQueue*>(connector->options.endpoint.receive_queue);
  connector->contact.receive_line = shared == nullptr ? 0 : shared->line();
  auto service_entry = board_.take();
  if (!service_entry) {
    connector->queue->give_entry(queue_entry);
    return std::unexpected(service_entry.error());
  }
  connector->contact.service_entry = *service_entry;
  const auto undo = [&](const Error& error) {
    connector->queue->give_entry(queue_entry);
    board_.give(*service_entry);
    connector->socket = os::Socket();
    return std::unexpected(error);
  };
  // A Unix socket connects at once or not at all; a full backlog is tried later.
  const Deadline soon = Deadline::at(clock_.now() + std::chrono::milliseconds(5));
  auto socket = os::Socket::connect(connector->place.socket, {.kind = os::SocketKind::kSeqpacket}, soon);
  if (!socket) {
    const bool nobody = socket.error() == ErrorCode::kNotFound;
    return undo(nobody ? Error(ErrorCode::kConnectionRefused, "connect: no such socket") : socket.error());
  }
  connector->socket = std::move(*socket);
  if (!is_allowed(connector->socket, connector->place))
    return undo(Error(ErrorCode::kAuthenticationFailed, "connect: the target belongs to another user"));
  if (auto said = say_hello(connector->socket, self_, end_of(*connector)); !said) return undo(said.error());
  connector->token = next_token_++;
  if (auto added = epoll_.add(connector->socket.fd(), os::kEpollReadable, connector->token); !added)
    return undo(added.error());
  watched_.emplace(connector->token, connector);
  connector->is_trying = true;
  connector->due = clock_.now() + connector->options.connect_timeout;
  if (std::ranges::find(timed_, connector) == timed_.end()) timed_.push_back(connector);
  return {};
}

// Ends a handshake that is under way, without giving up its entries.
void Service::end_attempt(const std::shared_ptr<Connector>& connector, const Lock&) {
  if (!std::exchange(connector->is_trying, false)) return;
  watched_.erase(connector->token);
  (void)epoll_.remove(connector->socket.fd());
  std::erase(timed_, connector);
}

void Service::failed(const std::shared_ptr<Connector>& connector, const Error& error, const Lock& lock) {
  if (connector->is_trying) {
    end_attempt(connector, lock);
    connector->socket = os::Socket();
    connector->queue->give_entry(connector->contact.queue_entry);
    board_.give(connector->contact.service_entry);
  }
  if (!connector->was_open) {
    connector->first = std::unexpected(error);
    connector->is_stopped = true;
    connected_.notify_all();
    return;
  }
  const ConnectOptions& options = connector->options;
  connector->backoff = std::clamp(connector->backoff * 2, options.min_backoff, options.max_backoff);
  connector->due = clock_.now() + connector->backoff;
  connector->is_paused = true;
  if (std::ranges::find(timed_, connector) == timed_.end()) timed_.push_back(connector);
}

void Service::on_welcome(const std::shared_ptr<Connector>& connector) {
  std::array<std::byte, kMaxPacket> buffer;
  Lock lock(mutex_);
  if (!connector->is_trying) return;
  auto received = receive_packet(connector->socket, buffer);
  if (!received) {
    // A target that closes without a word is one that stops listening.
    const bool closed = received.error() == ErrorCode::kConnectionLost;
    return failed(connector,
                  closed ? Error(ErrorCode::kConnectionRefused, "connect: closed") : received.error(), lock);
  }
  if (received->bytes == 0) return;
  const std::span<const std::byte> packet(buffer.data(), received->bytes);
  const auto type = packet_type(packet);
  if (!type || *type != PacketType::kWelcome)
    return failed(connector, Error(ErrorCode::kMalformedFrame, "connect: not a welcome"), lock);
  (void)epoll_.remove(connector->socket.fd());
  auto parts = take_welcome(connector->socket, self_, end_of(*connector), packet, std::move(received->fds));
  if (!parts) return failed(connector, parts.error(), lock);
  end_attempt(connector, lock);
  auto link = std::make_shared<Link>(std::move(*parts), connector->endpoint, connector->queue->mailbox());
  if (auto added = add_link({link, nullptr, connector}, lock); !added) {
    connector->queue->give_entry(connector->contact.queue_entry);
    return failed(connector, added.error(), lock);
  }
  connector->backoff = Duration(0);
  connector->link = link;
  if (std::exchange(connector->was_open, true)) {
    link->mailbox()->post({.kind = Mail::Kind::kOpened, .endpoint = connector->endpoint, .link = link});
  } else {
    connector->first = std::move(link);
    connected_.notify_all();
  }
}

Result<std::shared_ptr<Link>> Service::connect(const std::shared_ptr<Connector>& connector) {
  const auto limit = std::chrono::steady_clock::now() + connector->options.connect_timeout;
  Lock lock(mutex_);
  YONDER_TRY_VOID(attempt(connector, lock));
  bell_.ring();  // A new timer.
  const bool done = connected_.wait_until(lock, limit, [&] { return connector->first.has_value(); });
  if (!done) failed(connector, Error(ErrorCode::kDeadlineExceeded, "connect: no answer to our hello"), lock);
  return std::move(*connector->first);
}

std::shared_ptr<Link> Service::newest(const Connector& connector) {
  const Lock lock(mutex_);
  return connector.link;
}

void Service::stop(const std::shared_ptr<Connector>& connector, const std::shared_ptr<Link>& known) {
  std::shared_ptr<Link> newest;
  {
    const Lock lock(mutex_);
    connector->is_stopped = true;
    std::erase(timed_, connector);
    newest = std::move(connector->link);
    if (connector->is_trying) {
      end_attempt(connector, lock);
      connector->socket = os::Socket();
      connector->queue->give_entry(connector->contact.queue_entry);
      board_.give(connector->contact.service_entry);
    }
  }
  drop(known);
  if (!newest || newest == known) return;
  drop(newest);
  connector->queue->give_entry(newest->parts().ours.queue_entry);
}

}  // namespace yonder::fabric::shm
