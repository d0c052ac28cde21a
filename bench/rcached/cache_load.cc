#include "bench/rcached/cache_load.h"

#include <fmt/format.h>

#include <array>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "yonder/base/distribution.h"
#include "yonder/base/prng.h"
#include "yonder/os/epoll.h"
#include "yonder/os/socket.h"
#include "yonder/os/steady_clock.h"

namespace yonder::bench {
namespace {

// One connection with the command that is under way on it.
class Client {
 public:
  explicit Client(os::Socket socket) : socket_(std::move(socket)) {}

  const os::Socket& socket() const { return socket_; }

  Result<void> send(std::string_view command, bool is_get) {
    is_get_ = is_get;
    held_ = 0;
    sent_at_ = os::SteadyClock::read();
    return socket_.send_all(std::as_bytes(std::span(command)), cache_patience());
  }
  // True once the reply is whole.
  Result<bool> receive() {
    YONDER_TRY(got, socket_.try_receive(std::as_writable_bytes(std::span(buffer_)).subspan(held_)));
    held_ += got;
    const std::string_view reply(buffer_.data(), held_);
    if (held_ == buffer_.size()) return fail(ErrorCode::kMalformedFrame, "reply of a cache");
    return reply.ends_with(is_get_ ? "END\r\n" : "\r\n");
  }
  bool was_miss() const { return is_get_ && held_ == 5; }
  Instant sent_at() const { return sent_at_; }

 private:
  os::Socket socket_;
  bool is_get_ = false;
  std::size_t held_ = 0;
  Instant sent_at_;
  std::array<char, 4096> buffer_;
};

// One thread of the load.
class Generator {
 public:
  Generator(const CacheLoad& load, std::uint64_t seed)
      : load_(load),
        keys_({.items = load.keys, .theta = load.theta}),
        prng_(seed),
        value_(load.value_bytes, 'v') {}

  Result<void> run(const os::SocketAddress& server, unsigned connections, Instant end);

  std::uint64_t operations = 0;
  std::uint64_t misses = 0;
  Histogram latency_ns;

 private:
  Result<void> send_next(Client& client) {
    const std::string key = cache_key(keys_.next(prng_));
    const bool is_get = prng_.chance(load_.get_share);
    command_ = is_get ? fmt::format("get {}\r\n", key)
                      : fmt::format("set {} 0 0 {}\r\n{}\r\n", key, value_.size(), value_);
    return client.send(command_, is_get);
  }

  const CacheLoad load_;
  const ScrambledZipfian keys_;
  Prng prng_;
  const std::string value_;
  std::string command_;
};

Result<void> Generator::run(const os::SocketAddress& server, unsigned connections, Instant end) {
  YONDER_TRY(epoll, os::Epoll::create());
  std::vector<std::unique_ptr<Client>> clients;
  for (unsigned i = 0; i < connections; ++i) {
    YONDER_TRY(socket, dial_cache(server));
    clients.push_back(std::make_unique<Client>(std::move(socket)));
    YONDER_TRY_VOID(epoll.add(clients.back()->socket().fd(), os::kEpollReadable, i));
  }
  for (const auto& client : clients) YONDER_TRY_VOID(send_next(*client));
  std::array<os::EpollEvent, 64> events;
  for (Instant now = os::SteadyClock::read(); now < end; now = os::SteadyClock::read()) {
    YONDER_TRY(ready, epoll.wait(events, cache_patience()));
    for (const os::EpollEvent& event : ready) {
      Client& client = *clients[event.token];
      YONDER_TRY(whole, client.receive());
      if (!whole) continue;
      const Duration took = os::SteadyClock::read() - client.sent_at();
      latency_ns.record(static_cast<std::uint64_t>(took.count()));
      ++operations;
      misses += client.was_miss() ? 1 : 0;
      YONDER_TRY_VOID(send_next(client));
    }
  }
  return {};
}

}  // namespace

Deadline cache_patience() { return Deadline::at(os::SteadyClock::read() + std::chrono::seconds(30)); }

Result<os::Socket> dial_cache(const os::SocketAddress& server) {
  YONDER_TRY(socket, os::Socket::connect(server, {}, cache_patience()));
  if (!server.is_unix()) YONDER_TRY_VOID(socket.set_no_delay(true));
  return socket;
}

std::string cache_key(std::uint64_t number) { return fmt::format("user{:012}", number); }

Result<void> fill_cache(const os::SocketAddress& server, const CacheLoad& load) {
  // Batches without replies, and one command with a reply behind each, so that they cannot pile up.
  constexpr std::uint64_t kBatch = 500;
  YONDER_TRY(socket, dial_cache(server));
  const std::string value(load.value_bytes, 'v');
  std::string batch;
  for (std::uint64_t key = 0; key < load.keys;) {
    batch.clear();
    for (std::uint64_t i = 0; i < kBatch && key < load.keys; ++i, ++key) {
      batch += fmt::format("set {} 0 0 {} noreply\r\n{}\r\n", cache_key(key), value.size(), value);
    }
    batch += "mn\r\n";
    YONDER_TRY_VOID(socket.send_all(std::as_bytes(std::span(batch)), cache_patience()));
    std::array<std::byte, 4> reply;
    YONDER_TRY_VOID(socket.receive_all(reply, cache_patience()));
    if (reply[0] != std::byte{'M'}) return fail(ErrorCode::kMalformedFrame, "reply of a cache");
  }
  return {};
}

Result<CacheLoadResult> run_load(const os::SocketAddress& server, const CacheLoad& load) {
  std::vector<std::unique_ptr<Generator>> generators;
  std::vector<Result<void>> outcomes(load.threads);
  std::vector<std::thread> threads;
  const Instant begin = os::SteadyClock::read();
  for (unsigned i = 0; i < load.threads; ++i) {
    generators.push_back(std::make_unique<Generator>(load, load.seed * 1000 + i));
    threads.emplace_back([&, i] {
      outcomes[i] = generators[i]->run(server, load.connections / load.threads, begin + load.duration);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const double seconds = static_cast<double>((os::SteadyClock::read() - begin).count()) / 1e9;
  CacheLoadResult result;
  std::uint64_t operations = 0;
  for (unsigned i = 0; i < load.threads; ++i) {
    if (!outcomes[i]) return std::unexpected(outcomes[i].error());
    operations += generators[i]->operations;
    result.misses += generators[i]->misses;
    result.latency_ns.merge(generators[i]->latency_ns);
  }
  result.operations_per_s = static_cast<double>(operations) / seconds;
  return result;
}

}  // namespace yonder::bench
