#include "yonder/cache/tls.h"

#include <openssl/ssl.h>

#include <utility>

#include "yonder/cache/internal/tls_channel.h"
#include "yonder/sync/mutex.h"

namespace yonder::cache {
namespace {

int verify_bits(TlsVerify verify) {
  switch (verify) {
    case TlsVerify::kNone:
      return SSL_VERIFY_NONE;
    case TlsVerify::kRequest:
      return SSL_VERIFY_PEER;
    case TlsVerify::kRequire:
      return SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
    case TlsVerify::kOnce:
      return SSL_VERIFY_PEER | SSL_VERIFY_CLIENT_ONCE;
  }
  return SSL_VERIFY_NONE;
}

Result<TlsContextPtr> make_context(const TlsOptions& options) {
  YONDER_TRY(context, new_tls_context(TlsSide::kServer));
  SSL_CTX* raw = context.get();
  if (SSL_CTX_set_min_proto_version(raw, options.tls13_only ? TLS1_3_VERSION : TLS1_2_VERSION) != 1) {
    return tls_config_error("TLS: least version");
  }
  SSL_CTX_set_session_cache_mode(raw, options.session_cache ? SSL_SESS_CACHE_SERVER : SSL_SESS_CACHE_OFF);
  if (SSL_CTX_use_certificate_chain_file(raw, options.chain_cert.c_str()) != 1) {
    return tls_config_error("TLS: cannot use ssl_chain_cert");
  }
  const std::string& key = options.key.empty() ? options.chain_cert : options.key;
  if (SSL_CTX_use_PrivateKey_file(raw, key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(raw) != 1) {
    return tls_config_error("TLS: cannot use ssl_key");
  }
  if (!options.ciphers.empty() && SSL_CTX_set_cipher_list(raw, options.ciphers.c_str()) != 1) {
    return tls_config_error("TLS: cannot use ssl_ciphers");
  }
  if (!options.ca_cert.empty() && SSL_CTX_load_verify_locations(raw, options.ca_cert.c_str(), nullptr) != 1) {
    return tls_config_error("TLS: cannot use ssl_ca_cert");
  }
  SSL_CTX_set_verify(raw, verify_bits(options.verify), nullptr);
  if (options.cluster_key != nullptr) use_cluster_key(raw, TlsSide::kServer, *options.cluster_key);
  return context;
}

}  // namespace

struct TlsServer::State {
  TlsOptions options;
  sync::Mutex mutex;
  TlsContextPtr context YONDER_GUARDED_BY(mutex);
};

TlsServer::TlsServer(std::unique_ptr<State> state) : state_(std::move(state)) {}
TlsServer::~TlsServer() = default;

Result<std::unique_ptr<TlsServer>> TlsServer::create(const TlsOptions& options) {
  auto state = std::make_unique<State>();
  state->options = options;
  std::unique_ptr<TlsServer> server(new TlsServer(std::move(state)));
  YONDER_TRY_VOID(server->refresh());
  return server;
}

Result<void> TlsServer::refresh() {
  YONDER_TRY(context, make_context(state_->options));
  const sync::LockGuard lock(state_->mutex);
  state_->context = std::move(context);
  return {};
}

Result<std::unique_ptr<Channel>> TlsServer::wrap(os::Socket socket) {
  TlsContextPtr context;
  {
    const sync::LockGuard lock(state_->mutex);
    context = state_->context;
  }
  return make_tls_channel(std::move(socket), context, TlsSide::kServer);
}

}  // namespace yonder::cache
