#include "yonder/fabric/shm/internal/completion_queue.h"

#include <algorithm>
#include <bit>

#include "yonder/base/check.h"
#include "yonder/fabric/shm/internal/endpoint.h"

namespace yonder::fabric::shm {
namespace {

// Up to so many rings are looked at directly: fewer lines than the board.
constexpr std::size_t kFewEndpoints = 8;
// Every so many polls all rings are looked at, whatever the board says (board.h).
constexpr std::uint32_t kSweepPolls = 4096;
// Every so many polls progress is made although completions are ready, so that
// an initiator that is never idle still takes its messages.
constexpr std::uint32_t kForcedPolls = 16;
// So many rounds without a pause: about what an answer of a busy peer takes, and a
// pause is as long as a tenth of that.
constexpr std::uint32_t kEagerRounds = 64;
// Every so many rounds the clock is read for the deadlines of what is pending.
constexpr std::uint32_t kClockPolls = 32;

void relax() { __builtin_ia32_pause(); }

}  // namespace

Result<std::unique_ptr<CompletionQueue>> ShmCompletionQueue::create(StateFile& states, const RareFence& fence,
                                                                    const CompletionQueueOptions& options) {
  if (options.capacity == 0 || options.capacity > (1u << 20))
    return fail(ErrorCode::kInvalidArgument, "create completion queue: capacity", options.capacity);
  YONDER_TRY(board, Board::create());
  YONDER_TRY(event, os::EventFd::create());
  YONDER_TRY(line, states.take_line());
  return std::unique_ptr<CompletionQueue>(
      new ShmCompletionQueue(states, fence, options, line, std::move(board), std::move(event)));
}

ShmCompletionQueue::ShmCompletionQueue(StateFile& states, const RareFence& fence,
                                       const CompletionQueueOptions& options, std::uint32_t line, Board board,
                                       os::EventFd event)
    : CompletionQueue(options.capacity),
      states_(states),
      fence_(fence),
      spin_(options.spin),
      line_(line),
      board_(std::move(board)),
      mailbox_(std::make_shared<Mailbox>(std::move(event), states.line(line))),
      ready_(std::bit_ceil(options.capacity)),
      mask_(static_cast<std::uint32_t>(ready_.size()) - 1) {}

ShmCompletionQueue::~ShmCompletionQueue() {
  YONDER_CHECK(endpoints_.empty(), "a completion queue outlives its endpoints");
  mailbox_->close();
  states_.give_line(line_);
}

// ---------------------------------------------------------------- any thread

Result<void> ShmCompletionQueue::reserve(std::uint32_t completions) {
  const std::lock_guard lock(mutex_);
  if (completions > capacity() - reserved_)
    return fail(ErrorCode::kResourceExhausted, "attach endpoint: depths exceed the queue's capacity",
                completions);
  reserved_ += completions;
  return {};
}

void ShmCompletionQueue::unreserve(std::uint32_t completions) {
  const std::lock_guard lock(mutex_);
  reserved_ -= completions;
}

Result<std::uint32_t> ShmCompletionQueue::take_entry() {
  const std::lock_guard lock(mutex_);
  return board_.take();
}

void ShmCompletionQueue::give_entry(std::uint32_t entry) {
  const std::lock_guard lock(mutex_);
  board_.give(entry);
}

// ---------------------------------------------------------------- endpoints

void ShmCompletionQueue::push_delayed(const Completion& completion, ShmEndpoint* owner, Instant due) {
  Delayed delayed{due, delayed_order_++, {}};
  delayed.entry.set(completion, owner);
  delayed_.push_back(delayed);
  std::push_heap(delayed_.begin(), delayed_.end());
}

void ShmCompletionQueue::set_busy(ShmEndpoint& endpoint) {
  if (endpoint.in_busy_list) return;
  endpoint.in_busy_list = true;
  busy_.push_back(&endpoint);
}

void ShmCompletionQueue::watch(ShmEndpoint& endpoint, std::uint32_t entry) {
  if (by_entry_.size() <= entry) by_entry_.resize(std::size_t{entry} + 1);
  std::ranges::replace(by_entry_, &endpoint, nullptr);
  by_entry_[entry] = &endpoint;
}

void ShmCompletionQueue::detach(ShmEndpoint& endpoint, std::uint32_t reserved) {
  std::erase(endpoints_, &endpoint);
  std::erase(busy_, &endpoint);
  std::ranges::replace(by_entry_, &endpoint, nullptr);
  std::uint32_t left = 0;
  const auto orphan = [&](ReadyEntry& entry) {
    if (entry.owner() != &endpoint) return;
    entry.orphan();
    ++left;
  };
  for (std::uint32_t i = head_; i != tail_; ++i) orphan(ready_[i & mask_]);
  for (Delayed& delayed : delayed_) orphan(delayed.entry);
  unreserve(reserved - left);
}

ShmEndpoint* ShmCompletionQueue::find(EndpointId id) const {
  const auto found = std::ranges::find(endpoints_, id, [](const ShmEndpoint* e) { return e->id(); });
  return found == endpoints_.end() ? nullptr : *found;
}

void ShmCompletionQueue::read_mail() {
  for (Mail& mail : mailbox_->take()) {
    if (mail.kind == Mail::Kind::kAttach) {
      endpoints_.push_back(mail.attached);
      mail.attached->on_attached();
    } else if (ShmEndpoint* const endpoint = find(mail.endpoint)) {
      endpoint->on_mail(mail);
    }
  }
}

// ---------------------------------------------------------------- progress

void ShmCompletionQueue::poll_all_messages() {
  for (ShmEndpoint* endpoint : endpoints_) endpoint->poll_messages();
}

void ShmCompletionQueue::poll_messages() {
  if (endpoints_.size() <= kFewEndpoints || polls_ % kSweepPolls == 0) return poll_all_messages();
  board_.collect([this](std::uint32_t entry) {
    if (entry < by_entry_.size() && by_entry_[entry] != nullptr) by_entry_[entry]->poll_messages();
  });
}

void ShmCompletionQueue::advance_busy() {
  const bool look_at_clock = polls_ % kClockPolls == 0;
  const Instant now = look_at_clock ? clock_.now() : Instant();
  std::size_t kept = 0;
  for (ShmEndpoint* endpoint : busy_) {
    endpoint->advance();
    if (look_at_clock) endpoint->expire(now);
    endpoint->in_busy_list = endpoint->is_busy();
    if (endpoint->in_busy_list) busy_[kept++] = endpoint;
  }
  busy_.resize(kept);
}

void ShmCompletionQueue::release_due() {
  const Instant now = clock_.now();
  while (!delayed_.empty() && delayed_.front().due <= now) {
    std::pop_heap(delayed_.begin(), delayed_.end());
    ready_[tail_++ & mask_] = delayed_.back().entry;
    delayed_.pop_back();
  }
}

void ShmCompletionQueue::progress() {
  ++polls_;
  if (mailbox_->has_mail()) [[unlikely]]
    read_mail();
  poll_messages();
  // Whoever waits for a message gets it first; acknowledgements and the like can be
  // looked at while it works on it, but not put off for ever.
  if (!busy_.empty() && (is_idle() || polls_ % kForcedPolls == 0)) advance_busy();
  if (!delayed_.empty()) [[unlikely]]
    release_due();
}

[[gnu::always_inline]] inline std::size_t ShmCompletionQueue::take_ready(std::span<Completion> out) {
  const auto count = static_cast<std::uint32_t>(std::min<std::size_t>(tail_ - head_, out.size()));
  std::uint32_t orphans = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const ReadyEntry& entry = ready_[head_++ & mask_];
    entry.get(out[i]);
    if (ShmEndpoint* const owner = entry.owner()) [[likely]] {
      owner->on_polled(out[i].op);
    } else {
      ++orphans;
    }
  }
  if (orphans != 0) [[unlikely]]
    unreserve(orphans);
  return count;
}

std::size_t ShmCompletionQueue::do_poll(std::span<Completion> out) {
  if (is_idle() || ++polls_ % kForcedPolls == 0) progress();
  return take_ready(out);
}

// ---------------------------------------------------------------- waiting

Deadline ShmCompletionQueue::nap_end(Deadline deadline, Instant now) const {
  Instant end = std::min(deadline.instant(), now + kLongestNap);
  for (const ShmEndpoint* endpoint : busy_) end = std::min(end, endpoint->next_look(now));
  return Deadline::at(end);
}

void ShmCompletionQueue::nap(Deadline deadline) {
  NoticeLine& line = states_.line(line_);
  line.sleeping.store(1, std::memory_order_seq_cst);  // S1
  fence_.heavy();                                     // S2
  progress();                                         // S3
  poll_all_messages();
  for (ShmEndpoint* endpoint : busy_) endpoint->expire(clock_.now());
  if (is_idle() && !mailbox_->has_mail() && !mailbox_->is_woken() && delayed_.empty())
    (void)mailbox_->event().wait(nap_end(deadline, clock_.now()));  // S4
  // relaxed: a producer that still sees 1 rings once too often.
  line.sleeping.store(0, std::memory_order_relaxed);
}

Result<void> ShmCompletionQueue::do_wait(Deadline deadline) {
  const Instant start = clock_.now();
  deadline = deadline.or_default(Deadline::at(start + std::chrono::seconds(1)));
  const Instant spin_end = start + spin_;
  for (std::uint32_t round = 1;; ++round) {
    progress();
    if (!is_idle() || mailbox_->take_wake()) return {};
    if (round > kEagerRounds) relax();
    if (round % 16 != 0) continue;
    const Instant now = clock_.now();
    if (deadline.passed(now)) return fail(ErrorCode::kDeadlineExceeded, "wait for completions");
    if (now >= spin_end && delayed_.empty()) nap(deadline);
  }
}

}  // namespace yonder::fabric::shm
