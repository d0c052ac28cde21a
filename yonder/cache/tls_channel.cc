#include "yonder/cache/internal/tls_channel.h"

#include <openssl/err.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>
#include <utility>

namespace yonder::cache {
namespace {

constexpr std::array<unsigned char, 2> kPskCipher = {0x13, 0x01};  // TLS_AES_128_GCM_SHA256

struct FreeSsl {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};
using SslPtr = std::unique_ptr<SSL, FreeSsl>;

// Null where there is no key.
const ClusterKey* key_of(const SSL* ssl) {
  return static_cast<const ClusterKey*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
}

SSL_SESSION* key_session(SSL* ssl) {
  const std::span<const unsigned char> bytes = key_of(ssl)->bytes();
  const SSL_CIPHER* cipher = SSL_CIPHER_find(ssl, kPskCipher.data());
  SSL_SESSION* session = SSL_SESSION_new();
  if (session != nullptr && cipher != nullptr &&
      SSL_SESSION_set1_master_key(session, bytes.data(), bytes.size()) == 1 &&
      SSL_SESSION_set_cipher(session, cipher) == 1 &&
      SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1) {
    return session;
  }
  SSL_SESSION_free(session);
  return nullptr;
}

int offer_key(SSL* ssl, const EVP_MD*, const unsigned char** id, std::size_t* id_bytes,
              SSL_SESSION** session) {
  *session = key_session(ssl);
  *id = reinterpret_cast<const unsigned char*>(ClusterKey::kIdentity.data());
  *id_bytes = ClusterKey::kIdentity.size();
  return *session != nullptr ? 1 : 0;
}

int find_key(SSL* ssl, const unsigned char* identity, std::size_t identity_bytes, SSL_SESSION** session) {
  const std::string_view theirs(reinterpret_cast<const char*>(identity), identity_bytes);
  *session = theirs == ClusterKey::kIdentity ? key_session(ssl) : nullptr;
  return 1;
}

class TlsChannel final : public Channel {
 public:
  TlsChannel(os::Socket socket, SslPtr ssl, TlsSide side) : socket_(std::move(socket)), ssl_(std::move(ssl)) {
    SSL_set_fd(ssl_.get(), socket_.fd().get());
    if (side == TlsSide::kServer) {
      SSL_set_accept_state(ssl_.get());
    } else {
      SSL_set_connect_state(ssl_.get());
    }
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
    const Result<std::size_t> sent = outcome(SSL_write(ssl_.get(), from.data(), bounded(from.size())));
    must_receive_ = sent && *sent == 0 && !wants_write_;
    return sent;
  }
  bool holds_input() const override { return SSL_pending(ssl_.get()) > 0; }
  bool must_send() const override { return wants_write_; }
  bool must_receive() const override { return must_receive_; }
  bool is_server() const override {
    return key_of(ssl_.get()) != nullptr && SSL_is_init_finished(ssl_.get()) != 0 &&
           SSL_session_reused(ssl_.get()) != 0;
  }
  const os::Socket& socket() const override { return socket_; }

 private:
  static int bounded(std::size_t bytes) {
    return static_cast<int>(std::min<std::size_t>(bytes, std::numeric_limits<int>::max()));
  }
  Result<std::size_t> outcome(int result) {
    wants_write_ = false;
    must_receive_ = false;
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
  bool must_receive_ = false;
  bool failed_ = false;
};

}  // namespace

std::unexpected<Error> tls_config_error(const char* what) {
  const auto reason = static_cast<std::int64_t>(ERR_GET_REASON(ERR_peek_last_error()));
  ERR_clear_error();
  return fail(ErrorCode::kConfigInvalid, what, reason);
}

Result<TlsContextPtr> new_tls_context(TlsSide side) {
  TlsContextPtr context(SSL_CTX_new(side == TlsSide::kServer ? TLS_server_method() : TLS_client_method()),
                        [](SSL_CTX* raw) { SSL_CTX_free(raw); });
  if (context == nullptr) return fail(ErrorCode::kOutOfMemory, "TLS: new context");
  // A write that has to be repeated may come from another address: our output can move.
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                      SSL_MODE_RELEASE_BUFFERS);
  return context;
}

void use_cluster_key(SSL_CTX* context, TlsSide side, const ClusterKey& key) {
  SSL_CTX_set_app_data(context, const_cast<ClusterKey*>(&key));
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
  SSL_CTX_set_num_tickets(context, 0);
  if (side == TlsSide::kServer) {
    SSL_CTX_set_psk_find_session_callback(context, &find_key);
  } else {
    SSL_CTX_set_psk_use_session_callback(context, &offer_key);
  }
}

Result<std::unique_ptr<Channel>> make_tls_channel(os::Socket socket, const TlsContextPtr& context,
                                                  TlsSide side) {
  SslPtr ssl(SSL_new(context.get()));
  if (ssl == nullptr) return fail(ErrorCode::kOutOfMemory, "TLS: new connection");
  return std::make_unique<TlsChannel>(std::move(socket), std::move(ssl), side);
}

}  // namespace yonder::cache
