#pragma once
// KeeperServer: holds descriptors of memory for nodes that come and go.
//
// The whole of yonder-keeper. It knows nothing of what it holds and does nothing with
// it, so it need not be upgraded when nodes are.
//
//   who may ask       processes of our own user (the kernel tells), nobody else
//   one at a time     a connection that asks for a node has its lease until it closes;
//                     others are refused: two processes never get the same memory
//   bounds            files and connections; beyond them kResourceExhausted
//
// Everything a client sends is a stranger's word: packets of another size or kind end
// its connection.
//
// Concurrency: one thread drives it. Lifetime: what it holds is closed with it.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/node/keeper.h"
#include "yonder/os/epoll.h"
#include "yonder/os/socket.h"

namespace yonder::node {

namespace internal {
struct KeeperRequest;
}

class KeeperServer {
 public:
  struct Options {
    // Of the socket: a file, which is replaced if nobody listens there, or "@name".
    std::string path;
    std::size_t max_files = 4096;  // Of all nodes.
    std::size_t max_clients = 64;
  };
  // kAlreadyExists: a keeper listens there; kAddressInvalid, kPermissionDenied.
  static Result<std::unique_ptr<KeeperServer>> create(const Options& options);
  ~KeeperServer();
  KeeperServer(const KeeperServer&) = delete;
  KeeperServer& operator=(const KeeperServer&) = delete;

  // Answers what comes until the deadline, or until `stop` (absent: never) is readable.
  Result<void> serve(Deadline deadline, const os::Fd* stop = nullptr);

  std::size_t file_count() const;
  std::size_t client_count() const { return clients_.size(); }

 private:
  struct Client {
    os::Socket socket;
    std::string node;  // Whose lease it has; empty: none yet.
  };

  KeeperServer(const Options& options, os::Socket listener, os::Epoll epoll);
  void accept_clients();
  // False: the connection has ended, or must.
  bool answer_one(Client& client);
  Result<const KeptFile*> execute(Client& client, const internal::KeeperRequest& request, os::Fd file);
  bool take_lease(Client& client, const std::string& node);
  void drop(std::uint64_t token);
  // Whether somebody has the node's lease. One who is gone has none, noticed or not.
  bool is_leased(const std::string& node);

  const Options options_;
  os::Socket listener_;
  os::Epoll epoll_;
  std::uint64_t next_token_;
  std::map<std::uint64_t, Client> clients_;  // By token.
  std::map<std::string, std::vector<KeptFile>> nodes_;
};

}  // namespace yonder::node
