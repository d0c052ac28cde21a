#include "yonder/fabric/tcp/internal/greeter.h"

#include <algorithm>
#include <array>
#include <utility>

#include "yonder/os/epoll.h"

namespace yonder::fabric::tcp {
namespace {

constexpr Duration kLinger = std::chrono::seconds(1);

// What a TLS client understands when it meets a plain listener: a fatal alert
// "protocol version". A plain client gets it only after our refusal.
constexpr std::array<std::byte, 7> kTlsProtocolVersionAlert = {
    std::byte{21}, std::byte{3}, std::byte{3}, std::byte{0}, std::byte{2}, std::byte{2}, std::byte{70}};

}  // namespace

Greeter::Greeter(std::shared_ptr<Acceptor> acceptor, std::unique_ptr<Transport> transport, Watch& watch,
                 Instant deadline)
    : acceptor_(std::move(acceptor)), watch_(watch), deadline_(deadline), handshake_(std::move(transport)) {
  ++acceptor_->greeting_now_;
}

Greeter::~Greeter() { --acceptor_->greeting_now_; }

std::uint32_t Greeter::interest() const {
  return want_ == Transport::Want::kWrite ? os::kEpollWritable : os::kEpollReadable;
}

bool Greeter::step(Instant now) {
  if (acceptor_->is_closed() || now >= deadline_) return false;
  if (is_lingering_) return linger();
  const Result<void> advanced = advance(now);
  if (advanced) return !is_over_;
  acceptor_->context_.report("a hand-shake ended without a connection", advanced.error());
  if (!handshake_.has_transport()) return false;
  start_lingering(advanced.error(), now);
  return linger();
}

// A refused peer may still be sending. Closing now would answer that with a
// reset, which can overtake the reason we gave; so we say that we are done and
// read until the peer is, or for a second.
void Greeter::start_lingering(const Error& why, Instant now) {
  is_lingering_ = true;
  deadline_ = std::min(deadline_, now + kLinger);
  want_ = Transport::Want::kRead;
  const os::Socket& socket = handshake_.transport().socket();
  if (why == ErrorCode::kProtocolMismatch) (void)socket.try_send(kTlsProtocolVersionAlert);
  (void)socket.shut_down_sending();
}

bool Greeter::linger() {
  std::array<std::byte, 1024> ignored;
  for (;;) {
    const Result<std::size_t> count = handshake_.transport().socket().try_receive(ignored);
    if (!count) return false;
    if (*count == 0) return true;
  }
}

Result<void> Greeter::advance(Instant now) {
  for (;;) {
    YONDER_TRY(want, handshake_.step());
    want_ = want;
    if (want != Transport::Want::kNothing) return {};
    if (handshake_.is_done()) return finish(now);
    decide();
  }
}

void Greeter::decide() {
  answer_ = acceptor_->judge(handshake_.preface(), live_);
  const std::span<const std::byte> greeting(acceptor_->options_.greeting);
  handshake_.answer(answer_, greeting.first(answer_.greeting_bytes));
}

Result<void> Greeter::finish(Instant now) {
  is_over_ = true;
  if (answer_.status != ErrorCode::kOk) return fail(answer_.status, "refused a peer");
  watch_.forget(*fd());
  const OpenerPreface& preface = handshake_.preface();
  if (preface.role == StreamRole::kBackward)
    return acceptor_->join(preface.ticket, handshake_.take_transport());
  YONDER_TRY(agreement, agree(answer_.hello, preface.hello));
  return acceptor_->welcome({.ticket = answer_.ticket,
                             .transport = handshake_.take_transport(),
                             .agreement = agreement,
                             .live = std::move(live_)},
                            now);
}

}  // namespace yonder::fabric::tcp
