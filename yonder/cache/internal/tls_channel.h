#pragma once
// A Channel under TLS, and what contexts of OpenSSL have in common here.
//
// Concurrency: contexts from any thread once they are made; a channel, one thread.
// Lifetime: a channel keeps its context; the key of use_cluster_key() outlives the context.

#include <openssl/ssl.h>

#include <memory>

#include "yonder/base/result.h"
#include "yonder/cache/cluster_key.h"
#include "yonder/cache/internal/channel.h"
#include "yonder/os/socket.h"

namespace yonder::cache {

using TlsContextPtr = std::shared_ptr<SSL_CTX>;
enum class TlsSide : std::uint8_t { kClient, kServer };

// kOutOfMemory.
Result<TlsContextPtr> new_tls_context(TlsSide side);
// kConfigInvalid, with OpenSSL's reason as detail.
std::unexpected<Error> tls_config_error(const char* what);

// Servers of the cluster are let in by their key; no session is ever resumed then, so that a
// session which was not begun afresh is one that was begun with the key (is_server()).
void use_cluster_key(SSL_CTX* context, TlsSide side, const ClusterKey& key);

// The handshake happens with the first bytes. kOutOfMemory.
Result<std::unique_ptr<Channel>> make_tls_channel(os::Socket socket, const TlsContextPtr& context,
                                                  TlsSide side);

}  // namespace yonder::cache
