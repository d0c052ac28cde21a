#pragma once
// A transport under TLS, given an SSL object that is configured.
//
// OpenSSL reads the socket itself; what it writes goes to memory first and from
// there to the socket. So a write never has to be repeated with the same bytes,
// which OpenSSL otherwise demands, and the user's buffers are free as soon as
// send() has taken them (guarantee E3). At most kMaxUnsent encrypted bytes wait.
//
// Concurrency and lifetime: as Transport.

#include <openssl/ssl.h>

#include <memory>

#include "yonder/base/result.h"
#include "yonder/fabric/tcp/internal/tls.h"
#include "yonder/fabric/tcp/internal/transport.h"

namespace yonder::fabric::tcp {

struct FreeSsl {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};
using SslPtr = std::unique_ptr<SSL, FreeSsl>;

// Errors: kOutOfMemory.
Result<std::unique_ptr<Transport>> make_tls_transport(os::Socket socket, SslPtr ssl, TlsSide side);

}  // namespace yonder::fabric::tcp
