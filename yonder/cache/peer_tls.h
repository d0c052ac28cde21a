#pragma once
// PeerTls: how servers of a cluster with a key talk to each other.
//
// A server dials another where clients dial it, too, and begins TLS with the key. A listener
// that has no TLS for clients tells the two apart by the first byte: a TLS handshake begins
// with 22, which no command does. One that has TLS for clients (TlsServer) takes the key in
// the same handshake.
//
//   first byte    | listener without -Z       | listener with -Z
//   --------------+---------------------------+----------------------------------------
//   22, with key  | a server                  | a server
//   22, no key    | handshake fails           | a client, by certificates as -o says
//   another       | a client                  | handshake fails
//
// Concurrency: any thread. Lifetime: channels keep what they need but the key, which is
// this object's: it outlives them.

#include <memory>

#include "yonder/base/result.h"
#include "yonder/cache/cluster_key.h"
#include "yonder/os/socket.h"

namespace yonder::cache {

class Channel;

class PeerTls {
 public:
  // kOutOfMemory, kConfigInvalid.
  static Result<std::unique_ptr<PeerTls>> create(std::shared_ptr<const ClusterKey> key);
  ~PeerTls();

  // To another server; it may still be connecting. Who cannot prove the key is not talked to.
  Result<std::unique_ptr<Channel>> dial(os::Socket socket) const;
  // From a client or a server: the first byte tells.
  std::unique_ptr<Channel> welcome(os::Socket socket) const;

 private:
  struct State;
  explicit PeerTls(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace yonder::cache
