#include "yonder/fabric/tcp/internal/tls.h"

namespace yonder::fabric::tcp {

Result<std::shared_ptr<TlsContext>> TlsContext::create(const TlsSettings&, TlsSide) {
  return fail(ErrorCode::kUnsupported, "TLS");
}

Result<std::unique_ptr<Transport>> make_transport(os::Socket socket, TlsContext* tls,
                                                  const std::string& host) {
  if (tls != nullptr) return tls->wrap(std::move(socket), host);
  return make_plain_transport(std::move(socket));
}

}  // namespace yonder::fabric::tcp
