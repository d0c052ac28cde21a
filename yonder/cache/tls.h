#pragma once
// TlsServer: TLS for the clients of a server (-Z), with memcached's ssl_ options.
//
// Concurrency: any thread; refresh() while others make channels. Lifetime: channels keep
// what they need.

#include <cstdint>
#include <memory>
#include <string>

#include "yonder/base/result.h"
#include "yonder/cache/cluster_key.h"
#include "yonder/os/socket.h"

namespace yonder::cache {

class Channel;

// What a client must show.
enum class TlsVerify : std::uint8_t { kNone, kRequest, kRequire, kOnce };

struct TlsOptions {
  std::string chain_cert;  // ssl_chain_cert: PEM
  std::string key;         // ssl_key: PEM; empty: in the same file
  std::string ca_cert;     // ssl_ca_cert: who may sign clients' certificates
  std::string ciphers;     // ssl_ciphers: for TLS 1.2
  TlsVerify verify = TlsVerify::kNone;
  bool tls13_only = false;  // ssl_min_version=3; TLS 1.2 is the least otherwise
  bool session_cache = false;
  // Servers of the cluster are let in by it, without a certificate. Outlives all channels; with
  // it no client's session is resumed.
  std::shared_ptr<const ClusterKey> cluster_key;
};

class TlsServer {
 public:
  // Errors: kConfigInvalid (a file is missing or wrong).
  static Result<std::unique_ptr<TlsServer>> create(const TlsOptions& options);
  ~TlsServer();

  // The handshake happens with the first bytes. Errors: kOutOfMemory.
  Result<std::unique_ptr<Channel>> wrap(os::Socket socket);
  // Reads the files again, for clients that come from now on; if that fails, all stays as it was.
  Result<void> refresh();

 private:
  struct State;
  explicit TlsServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace yonder::cache
