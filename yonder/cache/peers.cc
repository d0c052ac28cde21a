#include "yonder/cache/peers.h"

#include <algorithm>
#include <utility>

#include "yonder/cache/internal/peer_link.h"
#include "yonder/os/socket.h"
#include "yonder/os/steady_clock.h"

namespace yonder::cache {
namespace {

// Between two attempts to reach an owner that is unknown or does not listen.
constexpr Duration kRetryDelay = std::chrono::milliseconds(5);
// To connect and be greeted: a local network answers at once or not at all.
constexpr Duration kConnectTimeout = std::chrono::milliseconds(200);
// After an attempt that failed.
constexpr Duration kUnreachable = std::chrono::milliseconds(50);

// Does not wait: who is asked meanwhile is told once the connection is there.
Result<os::Socket> dial(const std::string& owner) {
  if (owner.starts_with('/') || owner.starts_with('@')) {
    YONDER_TRY(address, os::SocketAddress::unix_name(owner));
    return os::Socket::begin_connect(address, {});
  }
  YONDER_TRY(addresses, os::SocketAddress::resolve(owner));
  YONDER_TRY(socket, os::Socket::begin_connect(addresses.front(), {}));
  YONDER_TRY_VOID(socket.set_no_delay(true));
  return socket;
}

}  // namespace

Peers::Peers(Store& store, const os::Epoll& epoll, const PeersOptions& options, Answer answer)
    : store_(store), epoll_(epoll), options_(options), answer_(std::move(answer)) {}

Peers::~Peers() = default;

void Peers::ask(Question question) {
  const Instant now = os::SteadyClock::read();
  if (question.deadline.is_default()) question.deadline = Deadline::at(now + options_.timeout);
  // Answers come from tick() and from events, so that a question never answers itself.
  later_.push_front({now, std::move(question)});
}

void Peers::try_again(Question question, Instant when) { later_.push_back({when, std::move(question)}); }

void Peers::give_up(const Question& question) { answer_(question, {PeerReply::Kind::kFailed}); }

Result<std::unique_ptr<Channel>> Peers::open_channel(const std::string& owner) const {
  YONDER_TRY(socket, dial(owner));
  if (options_.tls != nullptr) return options_.tls->dial(std::move(socket));
  return make_plain_channel(std::move(socket));
}

PeerLink* Peers::link_to(const std::string& owner, Instant now) {
  if (const auto link = links_.find(owner); link != links_.end()) return link->second.get();
  if (const auto until = unreachable_.find(owner); until != unreachable_.end() && until->second > now)
    return nullptr;
  unreachable_.erase(owner);
  Result<std::unique_ptr<Channel>> channel = open_channel(owner);
  if (!channel) {
    unreachable_[owner] = now + kUnreachable;
    return nullptr;
  }
  auto link = std::make_unique<PeerLink>(*this, *std::move(channel), now + kConnectTimeout);
  if (!link->start()) return nullptr;
  return (links_[owner] = std::move(link)).get();
}

void Peers::tick(Instant now) {
  for (auto it = links_.begin(); it != links_.end();) {
    const std::optional<Instant> deadline = it->second->first_deadline();
    if (!it->second->broken() && (!deadline || *deadline > now)) {
      ++it;
      continue;
    }
    const std::unique_ptr<PeerLink> gone = std::move(it->second);
    if (!gone->greeted()) unreachable_[it->first] = now + kUnreachable;
    it = links_.erase(it);
    gone->break_off(now);
  }
  std::deque<Later> due;
  std::swap(due, later_);
  for (Later& later : due) {
    if (later.when > now) {
      later_.push_back(std::move(later));
    } else {
      send(std::move(later.question), now);
    }
  }
}

void Peers::send(Question question, Instant now) {
  if (store_.is_local(question.partition)) return answer_(question, {PeerReply::Kind::kLocal});
  if (question.deadline.passed(now)) return give_up(question);
  const std::string owner = store_.owner_of(question.partition);
  PeerLink* link = owner.empty() ? nullptr : link_to(owner, now);
  if (link == nullptr) return try_again(std::move(question), now + kRetryDelay);
  if (link->waiting() >= options_.max_questions) return give_up(question);
  link->send(std::move(question));
}

std::optional<Instant> Peers::next_tick() const {
  std::optional<Instant> first;
  const auto earlier = [&](Instant when) { first = first ? std::min(*first, when) : when; };
  for (const Later& later : later_) earlier(later.when);
  for (const auto& [owner, link] : links_) {
    if (link->broken()) earlier(Instant());
    if (const std::optional<Instant> deadline = link->first_deadline()) earlier(*deadline);
  }
  return first;
}

std::size_t Peers::waiting() const {
  std::size_t count = later_.size();
  for (const auto& [owner, link] : links_) count += link->waiting();
  return count;
}

}  // namespace yonder::cache
