#include "yonder/fabric/tcp/internal/tls_transport.h"

#include <openssl/bio.h>
#include <openssl/err.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

namespace yonder::fabric::tcp {
namespace {

constexpr std::size_t kRecordBytes = 16 * 1024;  // The longest plaintext of a TLS record.
constexpr std::size_t kMaxUnsent = 128 * 1024;

// The reason codes of alerts are 1000 + the alert's number.
bool is_alert(int reason) { return reason >= SSL_AD_REASON_OFFSET && reason < SSL_AD_REASON_OFFSET + 256; }

// What the first error in OpenSSL's queue means for the connection.
Error meaning_of_failure(const char* during) {
  const int reason = ERR_GET_REASON(ERR_peek_error());
  ERR_clear_error();
  switch (reason) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
      return Error(ErrorCode::kProtocolMismatch, "the peer does not speak TLS 1.3", reason);
    case SSL_R_UNEXPECTED_EOF_WHILE_READING:
      return Error(ErrorCode::kConnectionLost, during, reason);
    case SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC:
    case SSL_R_BAD_RECORD_TYPE:
      return Error(ErrorCode::kMalformedFrame, during, reason);
    default:
      return Error(ErrorCode::kAuthenticationFailed, is_alert(reason) ? "the peer refused us" : during,
                   reason);
  }
}

// Walks a list of pieces, byte by byte in large steps.
class Cursor {
 public:
  explicit Cursor(std::span<const iovec> parts) : parts_(parts) { skip_empty(); }
  bool at_end() const { return parts_.empty(); }
  std::byte* data() const { return static_cast<std::byte*>(parts_.front().iov_base) + offset_; }
  std::size_t left() const { return parts_.front().iov_len - offset_; }
  void advance(std::size_t count) {
    offset_ += count;
    skip_empty();
  }

 private:
  void skip_empty() {
    while (!parts_.empty() && offset_ == parts_.front().iov_len) {
      parts_ = parts_.subspan(1);
      offset_ = 0;
    }
  }
  std::span<const iovec> parts_;
  std::size_t offset_ = 0;
};

class TlsTransport final : public Transport {
 public:
  TlsTransport(os::Socket socket, SslPtr ssl, BIO* outgoing)
      : Transport(std::move(socket)), ssl_(std::move(ssl)), outgoing_(outgoing) {}

  Result<Want> prepare() override;
  Result<std::size_t> receive(std::span<const iovec> into) override;
  Result<std::size_t> send(std::span<const iovec> from) override;
  Result<void> flush() override;
  bool unsent() const override { return sent_ != pending_.size() || BIO_ctrl_pending(outgoing_) != 0; }
  bool has_buffered() const override { return may_have_more_; }

 private:
  Result<std::size_t> read_some(std::byte* into, std::size_t count);
  Result<void> write_record(const std::byte* bytes, std::size_t count);
  // The next record's plaintext: from the user's memory if it is long, else
  // collected from several pieces.
  std::span<const std::byte> next_record(Cursor& from);

  const SslPtr ssl_;
  BIO* const outgoing_;  // Owned by ssl_.
  std::vector<std::byte> pending_;
  std::size_t sent_ = 0;
  bool may_have_more_ = false;
  std::array<std::byte, kRecordBytes> staging_;
};

Result<Transport::Want> TlsTransport::prepare() {
  ERR_clear_error();
  const int done = SSL_do_handshake(ssl_.get());
  const int why = done == 1 ? SSL_ERROR_NONE : SSL_get_error(ssl_.get(), done);
  const int error_number = errno;
  Error failure = Error(ErrorCode::kConnectionLost, "TLS hand-shake", error_number);
  if (why == SSL_ERROR_SSL) failure = meaning_of_failure("TLS hand-shake");
  // Also after a failure: the alert tells the peer.
  const Result<void> flushed = flush();
  if (why == SSL_ERROR_SSL || why == SSL_ERROR_SYSCALL || why == SSL_ERROR_ZERO_RETURN)
    return std::unexpected(failure);
  if (!flushed) return std::unexpected(flushed.error());
  if (unsent()) return Want::kWrite;
  return done == 1 ? Want::kNothing : Want::kRead;
}

Result<std::size_t> TlsTransport::read_some(std::byte* into, std::size_t count) {
  ERR_clear_error();
  std::size_t got = 0;
  const int ok = SSL_read_ex(ssl_.get(), into, count, &got);
  if (ok == 1) return got;
  switch (SSL_get_error(ssl_.get(), ok)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
      return std::size_t{0};
    case SSL_ERROR_SSL:
      return std::unexpected(meaning_of_failure("receive under TLS"));
    default:
      return fail(ErrorCode::kConnectionLost, "receive under TLS", errno);
  }
}

Result<std::size_t> TlsTransport::receive(std::span<const iovec> into) {
  std::size_t total = 0;
  may_have_more_ = false;
  for (Cursor to(into); !to.at_end();) {
    const Result<std::size_t> count = read_some(to.data(), to.left());
    // What came before the end is delivered; the end comes with the next call.
    if (!count) return total != 0 ? Result<std::size_t>(total) : count;
    if (*count == 0) return total;
    to.advance(*count);
    total += *count;
  }
  may_have_more_ = true;
  return total;
}

std::span<const std::byte> TlsTransport::next_record(Cursor& from) {
  if (from.left() >= kRecordBytes) {
    const std::span<const std::byte> record(from.data(), kRecordBytes);
    from.advance(kRecordBytes);
    return record;
  }
  std::size_t filled = 0;
  while (!from.at_end() && filled < kRecordBytes) {
    const std::size_t count = std::min(from.left(), kRecordBytes - filled);
    std::memcpy(staging_.data() + filled, from.data(), count);
    from.advance(count);
    filled += count;
  }
  return std::span(staging_).first(filled);
}

Result<void> TlsTransport::write_record(const std::byte* bytes, std::size_t count) {
  ERR_clear_error();
  std::size_t written = 0;
  // Memory takes all of it, so a partial write cannot happen.
  if (SSL_write_ex(ssl_.get(), bytes, count, &written) != 1 || written != count)
    return std::unexpected(meaning_of_failure("send under TLS"));
  return {};
}

Result<std::size_t> TlsTransport::send(std::span<const iovec> from) {
  std::size_t total = 0;
  for (Cursor bytes(from); !bytes.at_end();) {
    if (pending_.size() - sent_ + BIO_ctrl_pending(outgoing_) >= kMaxUnsent) {
      YONDER_TRY_VOID(flush());
      if (unsent()) return total;
    }
    const std::span<const std::byte> record = next_record(bytes);
    YONDER_TRY_VOID(write_record(record.data(), record.size()));
    total += record.size();
  }
  YONDER_TRY_VOID(flush());
  return total;
}

Result<void> TlsTransport::flush() {
  for (;;) {
    if (sent_ == pending_.size()) {
      pending_.resize(BIO_ctrl_pending(outgoing_));
      sent_ = 0;
      if (pending_.empty()) return {};
      BIO_read(outgoing_, pending_.data(), static_cast<int>(pending_.size()));
    }
    YONDER_TRY(count, socket().try_send(std::span<const std::byte>(pending_).subspan(sent_)));
    if (count == 0) return {};
    sent_ += count;
  }
}

}  // namespace

Result<std::unique_ptr<Transport>> make_tls_transport(os::Socket socket, SslPtr ssl, TlsSide side) {
  BIO* incoming = BIO_new_socket(socket.fd().get(), BIO_NOCLOSE);
  BIO* outgoing = BIO_new(BIO_s_mem());
  if (incoming == nullptr || outgoing == nullptr) {
    BIO_free(incoming);
    BIO_free(outgoing);
    return fail(ErrorCode::kOutOfMemory, "TLS: new connection");
  }
  SSL_set_bio(ssl.get(), incoming, outgoing);  // Takes both.
  if (side == TlsSide::kOpener) {
    SSL_set_connect_state(ssl.get());
  } else {
    SSL_set_accept_state(ssl.get());
  }
  return std::make_unique<TlsTransport>(std::move(socket), std::move(ssl), outgoing);
}

}  // namespace yonder::fabric::tcp
