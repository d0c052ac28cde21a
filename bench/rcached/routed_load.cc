#include "bench/rcached/routed_load.h"

#include <fmt/format.h>

#include <charconv>
#include <span>
#include <string_view>
#include <utility>

#include "bench/rcached/cache_load.h"
#include "yonder/base/check.h"
#include "yonder/cache/key.h"
#include "yonder/os/epoll.h"
#include "yonder/os/socket.h"
#include "yonder/os/steady_clock.h"
#include "yonder/os/wait.h"

namespace yonder::bench {
namespace {

constexpr std::size_t kKeyDigits = 12;
constexpr std::size_t kVersionDigits = 8;

std::uint64_t number_in(std::string_view digits) {
  std::uint64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

}  // namespace

// One client: a connection to each server, and the command that is under way on one of them.
class RoutedLoad::Client {
 public:
  static Result<std::unique_ptr<Client>> connect(const std::vector<os::SocketAddress>& servers) {
    auto client = std::make_unique<Client>();
    for (const os::SocketAddress& server : servers) {
      YONDER_TRY(socket, dial_cache(server));
      client->sockets.push_back(std::move(socket));
    }
    return client;
  }

  Result<void> send(std::string_view command) {
    held = 0;
    sent_at = os::SteadyClock::read();
    return sockets[server].send_all(std::as_bytes(std::span(command)), cache_patience());
  }
  // True once the reply is whole.
  Result<bool> receive() {
    YONDER_TRY(got, sockets[server].try_receive(std::as_writable_bytes(std::span(buffer)).subspan(held)));
    held += got;
    if (held == buffer.size()) return fail(ErrorCode::kMalformedFrame, "reply of a cache");
    return reply().ends_with(is_get && reply().starts_with("VALUE") ? "END\r\n" : "\r\n");
  }
  std::string_view reply() const { return {buffer.data(), held}; }

  std::vector<os::Socket> sockets;
  std::size_t server = 0;  // Who was asked.
  std::uint64_t key = 0;
  bool is_get = false;
  std::uint32_t version = 0;  // A set's; of a get the oldest that may come.
  Instant sent_at;
  std::size_t held = 0;
  std::array<char, 4096> buffer;
};

RoutedLoad::RoutedLoad(const RoutedLoadOptions& options)
    : options_(options),
      distribution_({.items = options.keys, .theta = options.theta}),
      prng_(options.seed),
      owners_(options.partitions),
      asked_(options.partitions),
      acknowledged_(options.keys, 1),
      sent_(options.keys, 1) {
  YONDER_CHECK(!options.servers.empty() && options.servers.size() <= kMaxCacheServers, "servers of a load");
  YONDER_CHECK(options.value_bytes >= kKeyDigits + kVersionDigits, "a value holds its key and version");
}

RoutedLoad::~RoutedLoad() = default;

std::size_t RoutedLoad::partition_of(std::string_view key) const {
  return cache::partition_of(cache::hash_of(key), options_.partitions);
}

std::string RoutedLoad::value_of(std::uint64_t key, std::uint32_t version) const {
  return fmt::format("{:0{}}{:0{}}{:v>{}}", key, kKeyDigits, version, kVersionDigits, "",
                     options_.value_bytes - kKeyDigits - kVersionDigits);
}

Result<void> RoutedLoad::fill() {
  // Batches without replies, and one command with a reply behind each, so that they cannot
  // pile up; each server gets its own keys.
  constexpr std::size_t kBatchBytes = 64 << 10;
  YONDER_TRY(client, Client::connect(options_.servers));
  std::vector<std::string> batches(options_.servers.size());
  const auto flush = [&](std::size_t server) -> Result<void> {
    std::string& batch = batches[server];
    batch += "mn\r\n";
    YONDER_TRY_VOID(client->sockets[server].send_all(std::as_bytes(std::span(batch)), cache_patience()));
    batch.clear();
    std::array<std::byte, 4> reply;
    YONDER_TRY_VOID(client->sockets[server].receive_all(reply, cache_patience()));
    if (reply[0] != std::byte{'M'}) return fail(ErrorCode::kMalformedFrame, "reply of a cache");
    return {};
  };
  for (std::uint64_t key = 0; key < options_.keys; ++key) {
    const std::string name = cache_key(key);
    const std::size_t server = owners_[partition_of(name)].load(std::memory_order_relaxed);
    batches[server] +=
        fmt::format("set {} 0 0 {} noreply\r\n{}\r\n", name, options_.value_bytes, value_of(key, 1));
    if (batches[server].size() >= kBatchBytes) YONDER_TRY_VOID(flush(server));
  }
  for (std::size_t server = 0; server < batches.size(); ++server) YONDER_TRY_VOID(flush(server));
  return {};
}

// ---------------------------------------------------------------- the load

Result<void> RoutedLoad::begin_load() {
  clients_.clear();
  for (unsigned i = 0; i < options_.clients; ++i) {
    YONDER_TRY(client, Client::connect(options_.servers));
    clients_.push_back(std::move(client));
  }
  begun_at_ = os::SteadyClock::read();
  thread_ = std::jthread([this](const std::stop_token& stop) { outcome_ = run(stop); });
  return {};
}

Result<void> RoutedLoad::end_load() {
  thread_.request_stop();
  thread_.join();
  clients_.clear();
  return outcome_;
}

Result<void> RoutedLoad::run(const std::stop_token& stop) {
  YONDER_TRY(epoll, os::Epoll::create());
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    for (const os::Socket& socket : clients_[i]->sockets)
      YONDER_TRY_VOID(epoll.add(socket.fd(), os::kEpollReadable, i));
    YONDER_TRY_VOID(send_next(*clients_[i]));
  }
  // Every client finishes what it has begun, so that each request is counted.
  std::array<os::EpollEvent, 64> events;
  for (std::size_t busy = clients_.size(); busy > 0;) {
    YONDER_TRY(ready, epoll.wait(events, cache_patience()));
    if (ready.empty()) return fail(ErrorCode::kDeadlineExceeded, "a cache does not answer");
    for (const os::EpollEvent& event : ready) {
      Client& client = *clients_[event.token];
      YONDER_TRY(whole, client.receive());
      if (!whole) continue;
      take_reply(client, os::SteadyClock::read());
      if (stop.stop_requested()) {
        --busy;
      } else {
        YONDER_TRY_VOID(send_next(client));
      }
    }
  }
  return {};
}

Result<void> RoutedLoad::send_next(Client& client) {
  client.key = distribution_.next(prng_);
  // One set of a key at a time: of two, nobody could say which came last.
  client.is_get = prng_.chance(options_.get_share) || sent_[client.key] != acknowledged_[client.key];
  const std::string name = cache_key(client.key);
  const std::size_t partition = partition_of(name);
  asked_[partition].fetch_add(1, std::memory_order_relaxed);
  client.server = owners_[partition].load(std::memory_order_relaxed);
  if (client.is_get) {
    client.version = acknowledged_[client.key];
    return client.send(fmt::format("get {}\r\n", name));
  }
  client.version = ++sent_[client.key];
  return client.send(fmt::format("set {} 0 0 {}\r\n{}\r\n", name, options_.value_bytes,
                                 value_of(client.key, client.version)));
}

CacheWindow& RoutedLoad::window_at(Instant now) {
  const auto index = static_cast<std::size_t>((now - begun_at_) / kCacheWindow);
  while (windows_.size() <= index) windows_.emplace_back();
  return windows_[index];
}

void RoutedLoad::take_reply(Client& client, Instant now) {
  const auto took = static_cast<std::uint64_t>((now - client.sent_at).count());
  CacheWindow& window = window_at(now);
  window.latency_ns.record(took);
  ++window.servers[client.server].requests;
  window.servers[client.server].latency_ns += took;
  ++requests_;
  if (client.is_get) {
    check_value(client.reply(), client.key, client.version);
  } else if (client.reply() == "STORED\r\n") {
    acknowledged_[client.key] = client.version;
  } else {
    note_failure(client.reply());
  }
}

// "VALUE user… 0 128\r\n" and the value, or "END\r\n".
void RoutedLoad::check_value(std::string_view reply, std::uint64_t key, std::uint32_t oldest) {
  if (!reply.starts_with("VALUE ") && reply != "END\r\n") return note_failure(reply);
  const std::string_view value = reply.substr(std::min(reply.find('\n') + 1, reply.size()));
  const bool whole = value.size() >= options_.value_bytes;
  const std::uint64_t version = whole ? number_in(value.substr(kKeyDigits, kVersionDigits)) : 0;
  if (whole && number_in(value.substr(0, kKeyDigits)) == key && version >= oldest && version <= sent_[key])
    return;
  if (lost_++ == 0)
    first_failure_ = fmt::format("key {} at least version {}: {}", key, oldest, reply.substr(0, 60));
}

void RoutedLoad::note_failure(std::string_view what) {
  if (failed_++ == 0) first_failure_ = std::string(what.substr(0, 60));
}

// ---------------------------------------------------------------- the last look

Result<void> RoutedLoad::check_all() {
  constexpr std::size_t kKeysPerGet = 64;
  YONDER_TRY(client, Client::connect(options_.servers));
  std::vector<std::vector<std::uint64_t>> keys(options_.servers.size());
  for (std::uint64_t key = 0; key < options_.keys; ++key) {
    const std::size_t server = owners_[partition_of(cache_key(key))].load(std::memory_order_relaxed);
    keys[server].push_back(key);
    if (keys[server].size() == kKeysPerGet)
      YONDER_TRY_VOID(check_some(client->sockets[server], std::exchange(keys[server], {})));
  }
  for (std::size_t server = 0; server < keys.size(); ++server) {
    if (!keys[server].empty()) YONDER_TRY_VOID(check_some(client->sockets[server], keys[server]));
  }
  return {};
}

Result<void> RoutedLoad::check_some(const os::Socket& socket, const std::vector<std::uint64_t>& keys) {
  std::string command = "get";
  for (const std::uint64_t key : keys) command += " " + cache_key(key);
  YONDER_TRY_VOID(socket.send_all(std::as_bytes(std::span(command += "\r\n")), cache_patience()));
  std::string reply;
  while (!reply.ends_with("END\r\n")) {
    std::array<std::byte, 16384> piece;
    YONDER_TRY_VOID(os::wait_ready(socket.fd().get(), os::Ready::kReadable, cache_patience()));
    YONDER_TRY(got, socket.try_receive(piece));
    reply.append(reinterpret_cast<const char*>(piece.data()), got);
    if (reply.starts_with("SERVER_ERROR")) return fail(ErrorCode::kCorrupt, "a cache does not answer gets");
  }
  // Items come in the order they were asked for; one that is gone has no line.
  std::string_view rest = reply;
  for (const std::uint64_t key : keys) {
    const bool here = rest.starts_with(fmt::format("VALUE {} ", cache_key(key)));
    const std::size_t bytes = rest.find('\n') + 1 + options_.value_bytes + 2;
    check_value(here ? rest.substr(0, bytes) : "END\r\n", key, acknowledged_[key]);
    if (here) rest.remove_prefix(std::min(bytes, rest.size()));
  }
  return {};
}

}  // namespace yonder::bench
