#include "yonder/cache/internal/peer_link.h"

#include <algorithm>
#include <array>
#include <utility>

#include "yonder/cache/conversation.h"
#include "yonder/os/steady_clock.h"

namespace yonder::cache {
namespace {

constexpr std::string_view kMark = "mn\r\n";
// Of a get with many keys it comes behind the values of keys before the one that is not owned,
// in place of END.
constexpr std::string_view kNotOwnerLine = "SERVER_ERROR not owner\r\n";
static_assert(kNotOwnerLine.starts_with(kNotOwner));

// A command that may be carried out twice without anybody noticing.
bool is_read(std::string_view command) { return command.starts_with("get") || command.starts_with("me "); }

// A partition is nobody's for the tens of microseconds of its transfer: the first repeat
// comes about then. If it is the map that is old, that takes milliseconds.
Duration delay_after(std::uint32_t refusals) {
  constexpr Duration kFirst = std::chrono::microseconds(100);
  constexpr std::uint32_t kMaxDoublings = 5;  // 3.2 ms
  return kFirst * (1 << std::min(refusals - 1, kMaxDoublings));
}

}  // namespace

PeerLink::PeerLink(Peers& peers, std::unique_ptr<Channel> channel, Instant greeted_by)
    : peers_(peers), channel_(std::move(channel)), greeted_by_(greeted_by) {
  out_.append_line(kPeerGreeting);
  out_.append(kMark);
  queued_ = out_.size();
}

PeerLink::~PeerLink() = default;

Result<void> PeerLink::start() {
  watched_ = os::kEpollReadable | os::kEpollWritable;
  return peers_.epoll_.add(channel_->socket().fd(), watched_,
                           reinterpret_cast<std::uint64_t>(static_cast<Pollable*>(this)));
}

std::optional<Instant> PeerLink::first_deadline() const {
  if (!greeted_) return greeted_by_;
  if (questions_.empty()) return std::nullopt;
  return questions_.front().question.deadline.instant();
}

void PeerLink::send(Question question) {
  out_.append(question.command);
  out_.append(kMark);
  queued_ += question.command.size() + kMark.size();
  questions_.push_back({std::move(question), queued_});
  if (greeted_) flush();  // Else it may not be connected yet; the event tells.
  if (!broken_) watch();
}

void PeerLink::on_events(std::uint32_t bits) {
  if (broken_) return;
  if ((bits & (os::kEpollReadable | os::kEpollError | os::kEpollHangUp)) != 0) read();
  if (!broken_) flush();
  if (!broken_) watch();
}

void PeerLink::read() {
  std::array<char, 16384> buffer;
  // What the channel holds no event tells of.
  do {
    const Result<std::size_t> got = channel_->receive(buffer);
    if (!got) {
      broken_ = true;
      return;
    }
    in_.append(buffer.data(), *got);
    take_answers();
  } while (!broken_ && channel_->holds_input());
}

void PeerLink::take_answers() {
  std::size_t used = 0;
  for (;;) {
    const std::string_view rest = std::string_view(in_).substr(used);
    const auto end = scanner_.scan(rest);
    if (!end || (end->has_value() && greeted_ && questions_.empty())) {
      broken_ = true;
      return;
    }
    if (!end->has_value()) break;
    const std::string_view reply = rest.substr(0, **end);
    used += **end + AnswerScanner::kMarkBytes;
    scanner_.reset();
    if (!greeted_) {
      greeted_ = reply == "OK\r\n";
      broken_ = !greeted_;
      if (broken_) return;
      continue;
    }
    Question question = std::move(questions_.front().question);
    questions_.pop_front();
    if (question.many_keys && reply.ends_with(kNotOwnerLine)) {
      peers_.answer_(question, {PeerReply::Kind::kSplit});
    } else if (reply.starts_with(kNotOwner)) {
      const Duration delay = delay_after(++question.refusals);
      peers_.try_again(std::move(question), os::SteadyClock::read() + delay);
    } else {
      peers_.answer_(question, {PeerReply::Kind::kText, reply});
    }
  }
  in_.erase(0, used);
}

void PeerLink::flush() {
  while (!out_.empty()) {
    const Result<std::size_t> sent = channel_->send(out_.pending());
    if (!sent) {
      broken_ = true;
      return;
    }
    if (*sent == 0) return;
    sent_ += *sent;
    out_.consume(*sent);
  }
}

void PeerLink::watch() {
  const bool sends = channel_->must_send() || (!out_.empty() && !channel_->must_receive());
  const std::uint32_t wanted = os::kEpollReadable | (sends ? std::uint32_t{os::kEpollWritable} : 0u);
  if (wanted == watched_) return;
  watched_ = wanted;
  const auto token = reinterpret_cast<std::uint64_t>(static_cast<Pollable*>(this));
  if (!peers_.epoll_.modify(channel_->socket().fd(), wanted, token)) broken_ = true;
}

void PeerLink::break_off(Instant now) {
  const std::uint64_t unsent_after = sent_;
  std::deque<Asked> left = std::move(questions_);
  questions_.clear();
  for (Asked& asked : left) {
    const bool unsent = asked.end - asked.question.command.size() - kMark.size() >= unsent_after;
    if (unsent || is_read(asked.question.command)) {
      peers_.try_again(std::move(asked.question), now);
    } else {
      peers_.give_up(asked.question);
    }
  }
}

}  // namespace yonder::cache
