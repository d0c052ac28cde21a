#include "yonder/cache/internal/connection.h"

#include <utility>

#include "yonder/cache/internal/worker.h"

namespace yonder::cache {
namespace {

std::string name_of(const Result<os::SocketAddress>& address) {
  if (!address) return "?";
  return (address->is_unix() ? "unix:" : "tcp:") + address->to_string();
}

Connection::Ends ends_of(const os::Socket& socket) {
  const auto local = socket.local_address();
  // A client of a Unix socket has no name of its own.
  const bool is_unix = local && local->is_unix();
  return {.fd = socket.fd().get(),
          .peer = name_of(is_unix ? local : socket.peer_address()),
          .local = name_of(local)};
}

}  // namespace

Connection::Connection(Worker& worker, std::uint64_t id, std::unique_ptr<Channel> channel)
    : worker_(worker),
      id_(id),
      channel_(std::move(channel)),
      ends_(ends_of(channel_->socket())),
      conversation_(worker.service(), worker.counters(), this),
      watched_(os::kEpollReadable),
      last_command_(worker.now()) {}

void Connection::on_events(std::uint32_t bits) {
  if (dead_) return;
  if ((bits & os::kEpollWritable) != 0) {
    flush();
    if (!dead_) pump({});
  }
  if (!dead_ && (bits & (os::kEpollReadable | os::kEpollError | os::kEpollHangUp)) != 0) read();
  if (!dead_) watch();
}

void Connection::read() {
  // A client that always has more must not keep the others waiting.
  constexpr int kReadsPerRound = 16;
  const std::span<char> buffer = worker_.read_buffer();
  for (int i = 0; i < kReadsPerRound && may_read(); ++i) {
    const Result<std::size_t> got = channel_->receive(buffer);
    if (!got) return kill();
    if (*got == 0) return;
    worker_.counters().add(Count::kBytesRead, *got);
    if (worker_.service().options().servers_have_key && channel_->is_server()) conversation_.trust_server();
    state_name_.store("conn_parse_cmd", std::memory_order_relaxed);
    pump({buffer.data(), *got});
    // Less than the buffer holds: that was all, and to ask again would cost a system call.
    if (dead_ || (*got < buffer.size() && !channel_->holds_input())) return;
  }
  if (may_read()) worker_.counters().add(Count::kConnYields);
}

void Connection::pump(std::string_view fresh) {
  // Replies that leave at once make room for those that wait behind them; but not for ever.
  constexpr int kTurns = 4;
  converse(fresh);
  flush();
  for (int i = 0; i < kTurns && !dead_ && stalled_ && !conversation_.blocked(); ++i) {
    converse({});
    flush();
  }
}

void Connection::converse(std::string_view fresh) {
  const Seconds now = worker_.now();
  if (!fresh.empty()) last_command_.store(now, std::memory_order_relaxed);
  if (held_.empty()) {
    const std::size_t used = conversation_.consume(fresh, now);
    held_.assign(fresh.substr(used));
  } else {
    held_.append(fresh);
    const std::size_t used = conversation_.consume(held_, now);
    held_.erase(0, used);
  }
  stalled_ = conversation_.blocked();
  if (conversation_.closed()) closing_ = true;
}

bool Connection::may_read() const { return !closing_ && !stalled_ && !conversation_.blocked(); }

void Connection::flush() {
  Output& out = conversation_.output();
  while (!out.empty()) {
    const Result<std::size_t> sent = channel_->send(out.pending());
    if (!sent) return kill();
    if (*sent == 0) break;
    worker_.counters().add(Count::kBytesWritten, *sent);
    out.consume(*sent);
  }
  if (out.empty() && closing_) kill();
}

void Connection::watch() {
  state_name_.store(conversation_.state_name().data(), std::memory_order_relaxed);
  const bool unsent = !conversation_.output().empty();
  // Stalled, but nothing to send any more: the next turn is due as soon as others had theirs.
  const bool next_turn = stalled_ && !conversation_.blocked();
  std::uint32_t wanted = may_read() ? std::uint32_t{os::kEpollReadable} : 0u;
  if (unsent || next_turn || channel_->must_send()) wanted |= os::kEpollWritable;
  if (wanted == watched_) return;
  if ((watched_ & os::kEpollReadable) != 0 && (wanted & os::kEpollReadable) == 0 && unsent) {
    worker_.counters().add(Count::kSlowReaders);
  }
  watched_ = wanted;
  if (!worker_.epoll().modify(channel_->socket().fd(), wanted, worker_.token_of(*this))) kill();
}

void Connection::kill() {
  if (dead_) return;
  dead_ = true;
  worker_.bury(*this);
}

void Connection::forward(Conversation&, const Request& request) {
  worker_.peers().ask({.connection = id_,
                       .partition = request.partition,
                       .command = std::string(request.command),
                       .part = request.part,
                       .many_keys = request.many_keys});
}

void Connection::answer(const Question& question, const PeerReply& reply) {
  if (dead_) return;
  switch (reply.kind) {
    case PeerReply::Kind::kText:
      conversation_.resume(question.part, reply.text);
      break;
    case PeerReply::Kind::kFailed:
      conversation_.resume(question.part, std::nullopt);
      break;
    case PeerReply::Kind::kLocal:
    case PeerReply::Kind::kSplit:  // Those that are here are here, the others are asked for.
      conversation_.resume_here(question.part, question.command);
      break;
  }
  pump({});
  if (!dead_ && channel_->holds_input()) read();
  if (!dead_) watch();
}

}  // namespace yonder::cache
