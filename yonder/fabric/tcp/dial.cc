#include "yonder/fabric/tcp/internal/dial.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "yonder/os/epoll.h"

namespace yonder::fabric::tcp {
namespace {

Result<os::Socket> start_connecting(const os::SocketAddress& address) {
  os::Fd fd(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return fail_errno("socket");
  if (::connect(fd.get(), address.raw(), address.length()) != 0 && errno != EINPROGRESS)
    return fail_errno("connect");
  YONDER_TRY(socket, os::Socket::adopt(std::move(fd)));
  YONDER_TRY_VOID(configure_socket(socket));
  return socket;
}

// What another attempt cannot change: it would only be refused again.
bool is_final(ErrorCode code) {
  return code == ErrorCode::kProtocolMismatch || code == ErrorCode::kAuthenticationFailed ||
         code == ErrorCode::kStaleEpoch || code == ErrorCode::kMalformedFrame;
}

}  // namespace

Dial::Dial(std::shared_ptr<const DialTarget> target, Again again, std::uint64_t seed, Watch& watch, Done done)
    : target_(std::move(target)),
      again_(again),
      prng_(seed),
      watch_(watch),
      done_(std::move(done)),
      backoff_(target_->min_backoff) {}

const os::Fd* Dial::fd() const { return handshake_ ? &handshake_->transport().socket().fd() : nullptr; }

std::uint32_t Dial::interest() const {
  return want_ == Transport::Want::kRead ? os::kEpollReadable : os::kEpollWritable;
}

Result<void> Dial::begin(StreamRole role, std::uint64_t ticket) {
  YONDER_TRY(socket, start_connecting(target_->addresses[address_]));
  YONDER_TRY(transport, make_transport(std::move(socket), target_->tls.get(), target_->host));
  handshake_.emplace(std::move(transport),
                     OpenerPreface{.hello = target_->hello, .role = role, .ticket = ticket});
  return {};
}

Result<std::optional<Link>> Dial::advance() {
  for (;;) {
    YONDER_TRY(want, handshake_->step());
    want_ = want;
    if (want != Transport::Want::kNothing) return std::nullopt;
    watch_.forget(handshake_->transport().socket().fd());
    if (link_) {
      link_->serving = handshake_->take_transport();
      return std::exchange(link_, std::nullopt);
    }
    const std::span<const std::byte> greeting = handshake_->greeting();
    Link link{.agreement = handshake_->agreement(), .greeting = {greeting.begin(), greeting.end()}};
    const ListenerPreface answer = handshake_->answer();
    link.requests = handshake_->take_transport();
    if (!answer.wants_backward) return link;
    link_ = std::move(link);
    YONDER_TRY_VOID(begin(StreamRole::kBackward, answer.ticket));
  }
}

bool Dial::step(Instant now) {
  if (!handshake_) {
    if (now < timer_) return true;
    timer_ = now + target_->attempt_timeout;
    if (const Result<void> begun = begin(StreamRole::kForward, 0); !begun)
      return fail_attempt(begun.error(), now);
  } else if (now >= timer_) {
    return fail_attempt(Error(ErrorCode::kDeadlineExceeded, "connect"), now);
  }
  Result<std::optional<Link>> link = advance();
  if (!link) return fail_attempt(link.error(), now);
  if (!*link) return true;
  handshake_.reset();
  done_(std::move(**link));
  return false;
}

bool Dial::fail_attempt(const Error& why, Instant now) {
  handshake_.reset();
  link_.reset();
  const bool is_over = why == ErrorCode::kDeadlineExceeded && again_ == Again::kNo;
  if (!is_over && ++address_ < target_->addresses.size()) {
    timer_ = now;
    return true;
  }
  address_ = 0;
  if (again_ == Again::kNo || is_final(why.code())) {
    done_(std::unexpected(why));
    return false;
  }
  // Full jitter over the upper half: [backoff/2, backoff).
  const auto half = static_cast<std::uint64_t>(std::max<std::int64_t>(1, backoff_.count() / 2));
  timer_ = now + Duration(static_cast<std::int64_t>(half + prng_.below(half)));
  backoff_ = std::min(2 * backoff_, target_->max_backoff);
  return true;
}

}  // namespace yonder::fabric::tcp
