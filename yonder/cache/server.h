#pragma once
// Server: memcached's protocol on TCP and Unix sockets, for a Service.
//
//   auto server = Server::create(service, {.listen = {{.address = "127.0.0.1:11211"}}});
//   …
//   (*server)->stop(deadline);
//
// A thread of its own listens and hands clients to the workers in turn; another looks
// after the store: expired items, and shares of memory that are in excess.
//
// Concurrency: create() and stop() by one thread; the rest from any.
// Lifetime: service and store outlive it; the destructor stops.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/cache/peers.h"
#include "yonder/cache/service.h"
#include "yonder/cache/tls.h"

namespace yonder::cache {

// Descriptors a server needs besides those of its clients.
inline constexpr std::size_t kReservedFds = 64;

// What `top -H` and `perf` call the threads that serve clients; the kernel takes 15 letters.
inline constexpr const char* kWorkerThreadName = "cache-worker";

struct ListenAt {
  // "host:port", "*:port", or a path of a Unix socket (begins with '/' or '.', or '@' for
  // an abstract name). Port 0: one that is free.
  std::string address;
  bool tls = false;
  std::uint32_t unix_mode = 0700;  // -a
};

struct ServerOptions {
  std::vector<ListenAt> listen;
  std::size_t threads = 4;             // -t
  std::size_t max_connections = 1024;  // -c
  int backlog = 1024;                  // -b
  Duration idle_timeout{0};            // -o idle_timeout; 0: none
  TlsServer* tls = nullptr;            // Needed by listeners with tls; outlives the server.
  // With a cluster key, peers.tls also welcomes servers at listeners without TLS.
  PeersOptions peers;
};

class Server {
 public:
  // Listens and serves. Errors: kInvalidArgument (nothing to listen at, no threads),
  // those of os::Socket::listen and os::SocketAddress::resolve.
  static Result<std::unique_ptr<Server>> create(Service& service, const ServerOptions& options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Where it listens, in the order of the options; with the port that was chosen.
  std::vector<std::string> addresses() const;

  // Takes no new clients, closes those that are idle, lets others finish their commands,
  // at most until the deadline. Requires a deadline that is set. A second call does nothing.
  void stop(Deadline deadline);

  struct Connections {
    std::uint64_t current = 0;
    std::uint64_t total = 0;
    std::uint64_t rejected = 0;
  };
  Connections connections() const;

 private:
  struct State;
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace yonder::cache
