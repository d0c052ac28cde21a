#include "yonder/fabric/tcp/internal/opening.h"

#include <sys/socket.h>

#include <cerrno>

#include "yonder/base/check.h"

namespace yonder::fabric::tcp {
namespace {

using Want = Transport::Want;

Result<std::size_t> receive_into(Transport& transport, std::span<std::byte> buffer) {
  const iovec part{.iov_base = buffer.data(), .iov_len = buffer.size()};
  return transport.receive({&part, 1});
}

// Sends bytes[sent..]; kNothing when all of it has left this process.
Result<Want> send_rest(Transport& transport, std::span<const std::byte> bytes, std::size_t& sent) {
  while (sent < bytes.size()) {
    const iovec part{.iov_base = const_cast<std::byte*>(bytes.data() + sent), .iov_len = bytes.size() - sent};
    YONDER_TRY(count, transport.send({&part, 1}));
    if (count == 0) return Want::kWrite;
    sent += count;
  }
  YONDER_TRY_VOID(transport.flush());
  return transport.unsent() ? Want::kWrite : Want::kNothing;
}

Result<void> refuse_strangers(std::span<const std::byte> first) {
  if (may_be_hello(first)) return {};
  if (looks_like_tls(first)) return fail(ErrorCode::kProtocolMismatch, "hand-shake: the peer speaks TLS");
  return fail(ErrorCode::kMalformedFrame, "hand-shake: not a Yonder peer");
}

}  // namespace

// ---------------------------------------------------------------- opener

OpenerHandshake::OpenerHandshake(std::unique_ptr<Transport> transport, const OpenerPreface& preface)
    : transport_(std::move(transport)), preface_(preface), encoded_(preface.encode()) {}

std::span<const std::byte> OpenerHandshake::greeting() const {
  return std::span(input_).subspan(ListenerPreface::kBytes, answer_.greeting_bytes);
}

Result<Want> OpenerHandshake::finish_connect() {
  sockaddr_storage peer{};
  socklen_t length = sizeof peer;
  const int fd = transport_->socket().fd().get();
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0) return Want::kNothing;
  int error_number = 0;
  length = sizeof error_number;
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error_number, &length) != 0) return fail_errno("getsockopt");
  if (error_number != 0) return std::unexpected(Error::from_errno("connect", error_number));
  return Want::kWrite;
}

Result<Want> OpenerHandshake::send_preface() { return send_rest(*transport_, encoded_, sent_); }

std::size_t OpenerHandshake::answer_bytes_expected() const {
  return ListenerPreface::kBytes + (received_ < ListenerPreface::kBytes ? 0 : answer_.greeting_bytes);
}

Result<Want> OpenerHandshake::read_answer() {
  // Never reads past the greeting: what follows belongs to the stream.
  while (received_ < answer_bytes_expected()) {
    YONDER_TRY(count, receive_into(*transport_, std::span(input_).subspan(
                                                    received_, answer_bytes_expected() - received_)));
    if (count == 0) return Want::kRead;
    received_ += count;
    YONDER_TRY_VOID(refuse_strangers(std::span(input_).first(received_)));
    if (received_ == ListenerPreface::kBytes) YONDER_TRY_VOID(judge_answer());
  }
  return Want::kNothing;
}

Result<void> OpenerHandshake::judge_answer() {
  YONDER_TRY(answer, ListenerPreface::decode(input_));
  answer_ = answer;
  if (answer_.status != ErrorCode::kOk)
    return fail(answer_.status, "hand-shake: the listener refused", static_cast<int>(answer_.status));
  YONDER_TRY(agreement, agree(preface_.hello, answer_.hello));
  agreement_ = agreement;
  return {};
}

Result<Want> OpenerHandshake::step() {
  for (;;) {
    Result<Want> want = Want::kNothing;
    switch (state_) {
      case State::kConnecting:
        want = finish_connect();
        break;
      case State::kSecuring:
        want = transport_->prepare();
        break;
      case State::kSending:
        want = send_preface();
        break;
      case State::kAwaiting:
        want = read_answer();
        break;
      case State::kDone:
        return Want::kNothing;
    }
    if (!want || *want != Want::kNothing) return want;
    state_ = static_cast<State>(static_cast<int>(state_) + 1);
  }
}

// ---------------------------------------------------------------- listener

Result<Want> ListenerHandshake::read_preface() {
  while (received_ < input_.size()) {
    YONDER_TRY(count, receive_into(*transport_, std::span(input_).subspan(received_)));
    if (count == 0) return Want::kRead;
    received_ += count;
    YONDER_TRY_VOID(refuse_strangers(std::span(input_).first(received_)));
  }
  YONDER_TRY(preface, OpenerPreface::decode(input_));
  preface_ = preface;
  return Want::kNothing;
}

void ListenerHandshake::answer(const ListenerPreface& answer, std::span<const std::byte> greeting) {
  YONDER_CHECK(has_preface(), "an answer needs a question");
  const ListenerPreface::Encoded encoded = answer.encode();
  output_.assign(encoded.begin(), encoded.end());
  output_.insert(output_.end(), greeting.begin(), greeting.end());
  state_ = State::kSending;
}

Result<Want> ListenerHandshake::send_answer() { return send_rest(*transport_, output_, sent_); }

Result<Want> ListenerHandshake::step() {
  for (;;) {
    Result<Want> want = Want::kNothing;
    switch (state_) {
      case State::kSecuring:
        want = transport_->prepare();
        break;
      case State::kAwaiting:
        want = read_preface();
        break;
      case State::kSending:
        want = send_answer();
        break;
      case State::kDeciding:
      case State::kDone:
        return Want::kNothing;
    }
    if (!want || *want != Want::kNothing) return want;
    state_ = static_cast<State>(static_cast<int>(state_) + 1);
    if (state_ == State::kDeciding) return Want::kNothing;
  }
}

}  // namespace yonder::fabric::tcp
