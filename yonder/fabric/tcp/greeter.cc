#include "yonder/fabric/tcp/internal/greeter.h"

#include <utility>

#include "yonder/os/epoll.h"

namespace yonder::fabric::tcp {

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
  const Result<void> advanced = advance(now);
  if (!advanced) acceptor_->context_.report("a hand-shake failed", advanced.error());
  return advanced && !is_over_;
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
