#pragma once
// TLS 1.3 for transports: mutual certificates or a pre-shared key, nothing older.
//
// Both sides prove who they are, always: a context without a way to verify the
// peer cannot be made. With certificates the peer's must be signed by `ca`; the
// opener also checks that the listener's names the host it dialled.
//
// Concurrency: a context may be used from any thread. Lifetime: shared by the
// transports it made.

#include <memory>
#include <string>

#include "yonder/base/result.h"
#include "yonder/fabric/tcp/internal/settings.h"
#include "yonder/fabric/tcp/internal/transport.h"

namespace yonder::fabric::tcp {

enum class TlsSide : std::uint8_t { kOpener, kListener };

class TlsContext {
 public:
  virtual ~TlsContext() = default;
  // Reads the files. Errors: kConfigInvalid (a file is missing or wrong).
  static Result<std::shared_ptr<TlsContext>> create(const TlsSettings& settings, TlsSide side);
  // `host` is what the opener dialled; ignored on the listener's side.
  virtual Result<std::unique_ptr<Transport>> wrap(os::Socket socket, const std::string& host) = 0;
};

// Plain if `tls` is null.
Result<std::unique_ptr<Transport>> make_transport(os::Socket socket, TlsContext* tls,
                                                  const std::string& host);

}  // namespace yonder::fabric::tcp
