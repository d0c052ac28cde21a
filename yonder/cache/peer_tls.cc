#include "yonder/cache/peer_tls.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "yonder/cache/internal/tls_channel.h"

namespace yonder::cache {
namespace {

constexpr unsigned char kTlsHandshake = 22;  // The first byte of a TLS record that begins one.

Result<TlsContextPtr> key_context(TlsSide side, const ClusterKey& key) {
  YONDER_TRY(context, new_tls_context(side));
  // Without certificates on either side a handshake without the key cannot succeed; the
  // dialling side would also refuse any certificate, as it trusts no one.
  if (SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(context.get(), "TLS_AES_128_GCM_SHA256") != 1)
    return tls_config_error("TLS 1.3 between servers");
  if (side == TlsSide::kClient) SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  use_cluster_key(context.get(), side, key);
  return context;
}

// Plain or TLS, as its first byte says.
class EitherChannel final : public Channel {
 public:
  EitherChannel(os::Socket socket, TlsContextPtr context)
      : socket_(std::move(socket)), context_(std::move(context)) {}

  Result<std::size_t> receive(std::span<char> to) override {
    if (chosen_ == nullptr) YONDER_TRY_VOID(choose());
    if (chosen_ == nullptr) return 0;
    return chosen_->receive(to);
  }
  // Nothing is said to somebody who has not spoken.
  Result<std::size_t> send(std::span<const char> from) override {
    if (chosen_ == nullptr) return 0;
    return chosen_->send(from);
  }
  bool holds_input() const override { return chosen_ != nullptr && chosen_->holds_input(); }
  bool must_send() const override { return chosen_ != nullptr && chosen_->must_send(); }
  bool is_server() const override { return chosen_ != nullptr && chosen_->is_server(); }
  const os::Socket& socket() const override { return chosen_ != nullptr ? chosen_->socket() : socket_; }

 private:
  Result<void> choose() {
    unsigned char first = 0;
    const ssize_t got = ::recv(socket_.fd().get(), &first, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return {};
    if (got <= 0) return fail(ErrorCode::kConnectionLost, "a client left before it spoke");
    if (first != kTlsHandshake) {
      chosen_ = make_plain_channel(std::move(socket_));
      return {};
    }
    YONDER_TRY(channel, make_tls_channel(std::move(socket_), context_, TlsSide::kServer));
    chosen_ = std::move(channel);
    return {};
  }

  os::Socket socket_;
  const TlsContextPtr context_;
  std::unique_ptr<Channel> chosen_;
};

}  // namespace

struct PeerTls::State {
  std::shared_ptr<const ClusterKey> key;
  TlsContextPtr dialling;
  TlsContextPtr listening;
};

PeerTls::PeerTls(std::unique_ptr<State> state) : state_(std::move(state)) {}
PeerTls::~PeerTls() = default;

Result<std::unique_ptr<PeerTls>> PeerTls::create(std::shared_ptr<const ClusterKey> key) {
  YONDER_TRY(dialling, key_context(TlsSide::kClient, *key));
  YONDER_TRY(listening, key_context(TlsSide::kServer, *key));
  return std::unique_ptr<PeerTls>(
      new PeerTls(std::make_unique<State>(std::move(key), std::move(dialling), std::move(listening))));
}

Result<std::unique_ptr<Channel>> PeerTls::dial(os::Socket socket) const {
  return make_tls_channel(std::move(socket), state_->dialling, TlsSide::kClient);
}

std::unique_ptr<Channel> PeerTls::welcome(os::Socket socket) const {
  return std::make_unique<EitherChannel>(std::move(socket), state_->listening);
}

}  // namespace yonder::cache
