#include "yonder/cache/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "yonder/cache/internal/channel.h"
#include "yonder/sync/mutex.h"

namespace yonder::cache {
namespace {

struct FreeContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
struct FreeSsl {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};
using ContextPtr = std::shared_ptr<SSL_CTX>;
using SslPtr = std::unique_ptr<SSL, FreeSsl>;

std::unexpected<Error> config(const char* what) {
  const auto reason = static_cast<std::int64_t>(ERR_GET_REASON(ERR_peek_last_error()));
  ERR_clear_error();
  return fail(ErrorCode::kConfigInvalid, what, reason);
}

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

Result<ContextPtr> make_context(const TlsOptions& options) {
  ContextPtr context(SSL_CTX_new(TLS_server_method()), FreeContext{});
  if (context == nullptr) return fail(ErrorCode::kOutOfMemory, "TLS: new context");
  SSL_CTX* raw = context.get();
  if (SSL_CTX_set_min_proto_version(raw, options.tls13_only ? TLS1_3_VERSION : TLS1_2_VERSION) != 1) {
    return config("TLS: least version");
  }
  // A write that has to be repeated may come from another address: our output can move.
  SSL_CTX_set_mode(
      raw, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_session_cache_mode(raw, options.session_cache ? SSL_SESS_CACHE_SERVER : SSL_SESS_CACHE_OFF);
  if (SSL_CTX_use_certificate_chain_file(raw, options.chain_cert.c_str()) != 1) {
    return config("TLS: cannot use ssl_chain_cert");
  }
  const std::string& key = options.key.empty() ? options.chain_cert : options.key;
  if (SSL_CTX_use_PrivateKey_file(raw, key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(raw) != 1) {
    return config("TLS: cannot use ssl_key");
  }
  if (!options.ciphers.empty() && SSL_CTX_set_cipher_list(raw, options.ciphers.c_str()) != 1) {
    return config("TLS: cannot use ssl_ciphers");
  }
  if (!options.ca_cert.empty() && SSL_CTX_load_verify_locations(raw, options.ca_cert.c_str(), nullptr) != 1) {
    return config("TLS: cannot use ssl_ca_cert");
  }
  SSL_CTX_set_verify(raw, verify_bits(options.verify), nullptr);
  return context;
}

class TlsChannel final : public Channel {
 public:
  TlsChannel(os::Socket socket, SslPtr ssl) : socket_(std::move(socket)), ssl_(std::move(ssl)) {
    SSL_set_fd(ssl_.get(), socket_.fd().get());
    SSL_set_accept_state(ssl_.get());
  }
  ~TlsChannel() override {
    // Says good-bye if that can be done at once.
    if (!failed_) SSL_shutdown(ssl_.get());
    ERR_clear_error();
  }

  Result<std::size_t> receive(std::span<char> to) override {
    return outcome(SSL_read(ssl_.get(), to.data(), bounded(to.size())));
  }
  Result<std::size_t> send(std::span<const char> from) override {
    return outcome(SSL_write(ssl_.get(), from.data(), bounded(from.size())));
  }
  bool holds_input() const override { return SSL_pending(ssl_.get()) > 0; }
  bool must_send() const override { return wants_write_; }
  const os::Socket& socket() const override { return socket_; }

 private:
  static int bounded(std::size_t bytes) {
    return static_cast<int>(std::min<std::size_t>(bytes, std::numeric_limits<int>::max()));
  }
  Result<std::size_t> outcome(int result) {
    wants_write_ = false;
    if (result > 0) return static_cast<std::size_t>(result);
    const int error = SSL_get_error(ssl_.get(), result);
    wants_write_ = error == SSL_ERROR_WANT_WRITE;
    ERR_clear_error();
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return 0;
    failed_ = true;
    return fail(ErrorCode::kConnectionLost, "TLS");
  }

  os::Socket socket_;
  SslPtr ssl_;
  bool wants_write_ = false;
  bool failed_ = false;
};

}  // namespace

struct TlsServer::State {
  TlsOptions options;
  sync::Mutex mutex;
  ContextPtr context YONDER_GUARDED_BY(mutex);
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
  ContextPtr context;
  {
    const sync::LockGuard lock(state_->mutex);
    context = state_->context;
  }
  SslPtr ssl(SSL_new(context.get()));
  if (ssl == nullptr) return fail(ErrorCode::kOutOfMemory, "TLS: new connection");
  return std::make_unique<TlsChannel>(std::move(socket), std::move(ssl));
}

}  // namespace yonder::cache
