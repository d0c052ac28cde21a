#include "yonder/fabric/tcp/internal/queue.h"

#include <algorithm>
#include <array>
#include <utility>

#include "yonder/base/check.h"
#include "yonder/fabric/tcp/internal/endpoint.h"

namespace yonder::fabric::tcp {
namespace {

constexpr Duration kDefaultWait = std::chrono::seconds(1);

}  // namespace

Result<std::unique_ptr<TcpQueue>> TcpQueue::create(const CompletionQueueOptions& options, Service& service,
                                                   const os::SteadyClock& clock) {
  if (options.capacity == 0) return fail(ErrorCode::kInvalidArgument, "create completion queue: no capacity");
  YONDER_TRY(epoll, os::Epoll::create());
  YONDER_TRY(group, StreamGroup::create(options.capacity));
  YONDER_TRY_VOID(epoll.add(group->bell()->fd(), os::kEpollReadable, 0));
  YONDER_TRY_VOID(epoll.add(group->fd(), os::kEpollReadable, 0));
  YONDER_TRY_VOID(service.add_group(group));
  return std::unique_ptr<TcpQueue>(new TcpQueue(options, service, clock, std::move(epoll), std::move(group)));
}

TcpQueue::TcpQueue(const CompletionQueueOptions& options, Service& service, const os::SteadyClock& clock,
                   os::Epoll epoll, std::shared_ptr<StreamGroup> group)
    : CompletionQueue(options.capacity),
      service_(service),
      clock_(clock),
      spin_(options.spin),
      epoll_(std::move(epoll)),
      group_(std::move(group)),
      finished_(options.capacity) {}

TcpQueue::~TcpQueue() {
  const auto is_closed = [](const auto& account) { return account->closed; };
  YONDER_CHECK(endpoints_.empty() && joining_.empty() && std::ranges::all_of(accounts_, is_closed),
               "an endpoint outlives its completion queue");
  service_.remove_group(group_);
}

void TcpQueue::wake() {
  woken_.store(true);
  group_->bell()->ring();
}

// ---------------------------------------------------------------- members

Result<Account*> TcpQueue::reserve(std::uint32_t depth, std::uint32_t receive_depth) {
  const std::lock_guard lock(mutex_);
  const std::size_t wanted = std::size_t{depth} + receive_depth;
  if (capacity() - reserved_ < wanted)
    return fail(ErrorCode::kResourceExhausted, "reserve completions: the queue's capacity",
                static_cast<std::int64_t>(capacity() - reserved_));
  reserved_ += wanted;
  accounts_.push_back(std::make_unique<Account>(Account{.depth = depth, .receive_depth = receive_depth}));
  return accounts_.back().get();
}

void TcpQueue::release(Account* account) {
  const std::lock_guard lock(mutex_);
  account->closed = true;
  free_if_settled(account);
}

void TcpQueue::free_if_settled(Account* account) {
  if (!account->is_settled()) return;
  reserved_ -= std::size_t{account->depth} + account->receive_depth;
  std::erase_if(accounts_, [account](const auto& held) { return held.get() == account; });
}

void TcpQueue::join(TcpEndpoint* endpoint) {
  {
    const std::lock_guard lock(mutex_);
    joining_.push_back(endpoint);
  }
  has_joining_.store(true, std::memory_order_release);
}

void TcpQueue::leave(TcpEndpoint* endpoint) {
  welcome_joining();
  std::erase(endpoints_, endpoint);
}

void TcpQueue::welcome_joining() {
  if (!has_joining_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(mutex_);
  has_joining_.store(false, std::memory_order_relaxed);
  endpoints_.insert(endpoints_.end(), joining_.begin(), joining_.end());
  joining_.clear();
}

// ---------------------------------------------------------------- progress

void TcpQueue::progress(Instant now) {
  welcome_joining();
  if (!group_->is_empty()) {
    attend();
    const std::lock_guard lock(group_->mutex());
    group_->progress(now);
  }
  if (group_->take_news()) {
    for (TcpEndpoint* endpoint : endpoints_) endpoint->take_news();
  }
  if (endpoints_.size() <= kDirect) {
    progress_directly();
  } else {
    progress_ready();
  }
  if (now >= earliest_) expire(now);
}

void TcpQueue::attend() {
  if (group_->attention().note_poll()) service_.hand_to_application(*group_);
}

void TcpQueue::progress_directly() {
  const bool look_at_idle = ++rounds_ % kIdleLook == 0;
  for (TcpEndpoint* endpoint : endpoints_) {
    if (!look_at_idle && !endpoint->has_outstanding()) continue;
    if (endpoint->progress()) endpoint->disarm();
  }
}

void TcpQueue::progress_ready() {
  for (TcpEndpoint* endpoint : endpoints_) endpoint->arm();
  std::array<os::EpollEvent, 64> events;
  const auto ready = epoll_.wait(events, Deadline::at(Instant::from_ns(1)));
  if (!ready) return;
  for (const os::EpollEvent& event : *ready) {
    // Endpoints leave only between polls, so the names are fresh.
    if (event.token != 0) reinterpret_cast<TcpEndpoint*>(event.token)->progress();
  }
}

void TcpQueue::expire(Instant now) {
  earliest_ = kNoTimer;
  for (TcpEndpoint* endpoint : endpoints_) earliest_ = std::min(earliest_, endpoint->expire(now));
}

// ---------------------------------------------------------------- polling

// Gives back what the completion had reserved.
void TcpQueue::settle(const Finished& finished) {
  Account* account = finished.account;
  if (account == nullptr) return;
  const bool is_receive = finished.completion.op == Op::kReceive || finished.completion.op == Op::kReceiveImm;
  --(is_receive ? account->receives : account->requests);
  if (account->closed) [[unlikely]] {
    const std::lock_guard lock(mutex_);
    free_if_settled(account);
  }
}

std::size_t TcpQueue::take_arrivals(std::span<Completion> out) {
  std::size_t count = 0;
  while (count < out.size()) {
    Finished arrived;
    {
      const std::lock_guard lock(group_->mutex());
      if (!group_->arrivals().has_any()) break;
      arrived = group_->arrivals().pop();
    }
    out[count++] = arrived.completion;
    settle(arrived);
  }
  return count;
}

std::size_t TcpQueue::do_poll(std::span<Completion> out) {
  std::size_t count = 0;
  if (finished_.empty()) {
    finished_.open_window(out);
    progress(clock_.now());
    count = finished_.close_window();
  }
  while (count < out.size() && !finished_.empty()) {
    const Finished& finished = finished_.pop();
    out[count++] = finished.completion;
    settle(finished);
  }
  if (group_->arrivals().has_any()) count += take_arrivals(out.subspan(count));
  return count;
}

Result<void> TcpQueue::do_wait(Deadline deadline) {
  Instant now = clock_.now();
  deadline = deadline.or_default(Deadline::at(now + kDefaultWait));
  const Instant sleep_from = now + spin_;
  for (;;) {
    progress(now);
    if (is_ready()) break;
    now = clock_.now();
    if (deadline.passed(now)) return fail(ErrorCode::kDeadlineExceeded, "wait for completions");
    if (now < sleep_from) continue;
    sleep(deadline);
    now = clock_.now();
  }
  woken_.store(false);
  return {};
}

void TcpQueue::sleep(Deadline deadline) {
  Attention& attention = group_->attention();
  attention.enter_wait();
  // What was rung for until now is seen by the looks below; only what comes after
  // them must keep us from sleeping.
  (void)group_->bell()->take();
  if (group_->bell()->lie_down() && !is_ready() && !group_->has_news() && !group_->is_kicked()) {
    Instant until = std::min(deadline.instant(), earliest_);
    for (TcpEndpoint* endpoint : endpoints_) endpoint->arm();
    if (!group_->is_empty()) {
      const std::lock_guard lock(group_->mutex());
      group_->prepare_to_sleep();
      until = group_->wants_turn() ? Instant::from_ns(1) : std::min(until, group_->next_timer());
    }
    std::array<os::EpollEvent, 1> event;
    (void)epoll_.wait(event, Deadline::at(std::max(until, Instant::from_ns(1))));
  }
  group_->bell()->get_up();
  attention.leave_wait();
  rounds_ = kIdleLook - 1;  // The event may be of an endpoint that expects nothing.
  if (!group_->is_empty()) service_.ask_for_ticks();
}

}  // namespace yonder::fabric::tcp
