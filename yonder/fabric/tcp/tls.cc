#include "yonder/fabric/tcp/internal/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <array>
#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

#include "yonder/fabric/tcp/internal/tls_transport.h"

namespace yonder::fabric::tcp {
namespace {

struct FreeContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using ContextPtr = std::unique_ptr<SSL_CTX, FreeContext>;

constexpr std::array<unsigned char, 2> kPskCipher = {0x13, 0x01};  // TLS_AES_128_GCM_SHA256
constexpr std::size_t kMinPskBytes = 16;
constexpr std::size_t kMaxPskBytes = 64;

std::unexpected<Error> config(const char* what) {
  const auto reason = static_cast<std::int64_t>(ERR_GET_REASON(ERR_peek_last_error()));
  ERR_clear_error();
  return fail(ErrorCode::kConfigInvalid, what, reason);
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

Result<std::vector<unsigned char>> read_psk(const std::string& path) {
  std::ifstream file(path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) return config("TLS: cannot read the pre-shared key");
  std::erase_if(text, [](char c) { return c == '\n' || c == '\r' || c == ' '; });
  std::vector<unsigned char> key;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    const int high = hex_digit(text[i]);
    const int low = hex_digit(text[i + 1]);
    if (high < 0 || low < 0) return config("TLS: the pre-shared key is not hexadecimal");
    key.push_back(static_cast<unsigned char>(high * 16 + low));
  }
  if (text.size() % 2 != 0 || key.size() < kMinPskBytes || key.size() > kMaxPskBytes)
    return config("TLS: the pre-shared key must have 16 to 64 bytes, in hexadecimal");
  return key;
}

class OpenSslContext final : public TlsContext {
 public:
  OpenSslContext(ContextPtr context, TlsSettings settings, TlsSide side)
      : context_(std::move(context)), settings_(std::move(settings)), side_(side) {
    SSL_CTX_set_app_data(context_.get(), this);
  }

  Result<void> configure();
  Result<std::unique_ptr<Transport>> wrap(os::Socket socket, const std::string& host) override;

 private:
  bool uses_psk() const { return !settings_.psk.empty(); }
  Result<void> use_certificates();
  Result<void> use_psk();
  Result<void> expect_host(SSL* ssl, const std::string& host) const;
  SSL_SESSION* psk_session(SSL* ssl) const;

  static const OpenSslContext& of(SSL* ssl) {
    return *static_cast<OpenSslContext*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  }
  static int offer_psk(SSL* ssl, const EVP_MD* digest, const unsigned char** id, std::size_t* id_bytes,
                       SSL_SESSION** session);
  static int find_psk(SSL* ssl, const unsigned char* identity, std::size_t identity_bytes,
                      SSL_SESSION** session);

  const ContextPtr context_;
  const TlsSettings settings_;
  const TlsSide side_;
  std::vector<unsigned char> psk_;
};

Result<void> OpenSslContext::configure() {
  SSL_CTX* context = context_.get();
  if (SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1) return config("TLS 1.3");
  // Every connection proves itself afresh: no tickets, no cached sessions.
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_read_ahead(context, 1);
  return uses_psk() ? use_psk() : use_certificates();
}

Result<void> OpenSslContext::use_certificates() {
  SSL_CTX* context = context_.get();
  if (SSL_CTX_use_certificate_chain_file(context, settings_.cert.c_str()) != 1)
    return config("TLS: cannot use the certificate");
  if (SSL_CTX_use_PrivateKey_file(context, settings_.key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(context) != 1)
    return config("TLS: cannot use the private key");
  if (SSL_CTX_load_verify_locations(context, settings_.ca.c_str(), nullptr) != 1)
    return config("TLS: cannot use the certificate authority");
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return {};
}

// The peers have no certificates then, so a hand-shake without the key cannot
// succeed; the opener would also refuse any certificate, as it trusts no one.
Result<void> OpenSslContext::use_psk() {
  YONDER_TRY(psk, read_psk(settings_.psk));
  psk_ = std::move(psk);
  SSL_CTX* context = context_.get();
  if (SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") != 1) return config("TLS: cipher");
  if (side_ == TlsSide::kOpener) {
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
    SSL_CTX_set_psk_use_session_callback(context, &offer_psk);
  } else {
    SSL_CTX_set_psk_find_session_callback(context, &find_psk);
  }
  return {};
}

SSL_SESSION* OpenSslContext::psk_session(SSL* ssl) const {
  const SSL_CIPHER* cipher = SSL_CIPHER_find(ssl, kPskCipher.data());
  SSL_SESSION* session = SSL_SESSION_new();
  if (session == nullptr || cipher == nullptr ||
      SSL_SESSION_set1_master_key(session, psk_.data(), psk_.size()) != 1 ||
      SSL_SESSION_set_cipher(session, cipher) != 1 ||
      SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) != 1) {
    SSL_SESSION_free(session);
    return nullptr;
  }
  return session;
}

int OpenSslContext::offer_psk(SSL* ssl, const EVP_MD*, const unsigned char** id, std::size_t* id_bytes,
                              SSL_SESSION** session) {
  const OpenSslContext& self = of(ssl);
  *session = self.psk_session(ssl);
  *id = reinterpret_cast<const unsigned char*>(self.settings_.psk_identity.data());
  *id_bytes = self.settings_.psk_identity.size();
  return *session != nullptr ? 1 : 0;
}

int OpenSslContext::find_psk(SSL* ssl, const unsigned char* identity, std::size_t identity_bytes,
                             SSL_SESSION** session) {
  const OpenSslContext& self = of(ssl);
  const std::string_view theirs(reinterpret_cast<const char*>(identity), identity_bytes);
  *session = theirs == self.settings_.psk_identity ? self.psk_session(ssl) : nullptr;
  return 1;
}

Result<void> OpenSslContext::expect_host(SSL* ssl, const std::string& host) const {
  if (side_ == TlsSide::kListener || uses_psk()) return {};
  if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str()) == 1) return {};
  ERR_clear_error();  // Not a number: a name.
  // SSL_set_tlsext_host_name, whose macro our warnings do not like.
  const long named =
      SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, const_cast<char*>(host.c_str()));
  if (SSL_set1_host(ssl, host.c_str()) != 1 || named != 1) return config("TLS: host name");
  return {};
}

Result<std::unique_ptr<Transport>> OpenSslContext::wrap(os::Socket socket, const std::string& host) {
  SslPtr ssl(SSL_new(context_.get()));
  if (ssl == nullptr) return fail(ErrorCode::kOutOfMemory, "TLS: new connection");
  YONDER_TRY_VOID(expect_host(ssl.get(), host));
  return make_tls_transport(std::move(socket), std::move(ssl), side_);
}

}  // namespace

Result<std::shared_ptr<TlsContext>> TlsContext::create(const TlsSettings& settings, TlsSide side) {
  ContextPtr raw(SSL_CTX_new(side == TlsSide::kOpener ? TLS_client_method() : TLS_server_method()));
  if (raw == nullptr) return fail(ErrorCode::kOutOfMemory, "TLS: new context");
  auto context = std::make_shared<OpenSslContext>(std::move(raw), settings, side);
  YONDER_TRY_VOID(context->configure());
  return context;
}

Result<std::unique_ptr<Transport>> make_transport(os::Socket socket, TlsContext* tls,
                                                  const std::string& host) {
  if (tls != nullptr) return tls->wrap(std::move(socket), host);
  return make_plain_transport(std::move(socket));
}

}  // namespace yonder::fabric::tcp
