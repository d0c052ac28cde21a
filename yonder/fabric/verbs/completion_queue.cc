#include "yonder/fabric/verbs/internal/completion_queue.h"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <bit>

#include "yonder/base/check.h"
#include "yonder/fabric/verbs/internal/endpoint.h"
#include "yonder/os/wait.h"

namespace yonder::fabric::verbs {
namespace {

constexpr std::size_t kBatch = 16;
// Reading the clock costs as much as polling an empty queue: a busy poller looks
// at its timers every so many idle polls.
constexpr unsigned kTimerPolls = 32;
// Acknowledging an event takes a lock in libibverbs, so it is done in batches.
constexpr unsigned kEventBatch = 64;

void spin_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

VerbsQueue::VerbsQueue(std::shared_ptr<Device> device, const CompletionQueueOptions& options,
                       std::shared_ptr<Bell> bell)
    : CompletionQueue(options.capacity),
      device_(std::move(device)),
      bell_(std::move(bell)),
      spin_(options.spin),
      ready_(std::bit_ceil(std::size_t{options.capacity} * 4)) {}

Result<std::unique_ptr<CompletionQueue>> VerbsQueue::create(std::shared_ptr<Device> device,
                                                            CompletionQueueOptions options) {
  if (options.capacity == 0) return fail(ErrorCode::kInvalidArgument, "create a completion queue: capacity");
  // Half for requests and receives of endpoints, half for shared receives.
  const auto most = static_cast<std::uint32_t>(std::max(device->attributes().max_cqe, 2)) / 2;
  options.capacity = std::min(options.capacity, most);
  YONDER_TRY(bell, Bell::create());
  std::unique_ptr<VerbsQueue> queue(new VerbsQueue(std::move(device), options, std::move(bell)));
  YONDER_TRY_VOID(queue->open());
  return queue;
}

Result<void> VerbsQueue::open() {
  const Library& library = device_->library();
  channel_ = library.create_comp_channel(device_->context());
  if (channel_ == nullptr) return std::unexpected(device_error("ibv_create_comp_channel"));
  const int flags = ::fcntl(channel_->fd, F_GETFL);
  if (::fcntl(channel_->fd, F_SETFL, flags | O_NONBLOCK) != 0) return fail_errno("fcntl(F_SETFL)");
  const auto entries = static_cast<int>(capacity()) * 2;
  cq_ = library.create_cq(device_->context(), entries, nullptr, channel_, 0);
  if (cq_ == nullptr) return std::unexpected(device_error("ibv_create_cq"));
  return {};
}

VerbsQueue::~VerbsQueue() {
  YONDER_CHECK(endpoints_.empty(), "a completion queue outlives its endpoints");
  const Library& library = device_->library();
  if (cq_ != nullptr) {
    if (unacknowledged_events_ > 0) library.ack_cq_events(cq_, unacknowledged_events_);
    library.destroy_cq(cq_);
  }
  if (channel_ != nullptr) library.destroy_comp_channel(channel_);
}

// ---------------------------------------------------------------- any thread

void VerbsQueue::wake() {
  // release: pairs with the exchange in do_wait().
  woken_.store(true, std::memory_order_release);
  bell_->raise();
}

Result<void> VerbsQueue::reserve(std::uint32_t completions, const VerbsReceiveQueue* shared) {
  const std::scoped_lock lock(mutex_);
  const bool is_new = shared != nullptr && std::ranges::find(shared_queues_, shared) == shared_queues_.end();
  const std::uint32_t more_shared = is_new ? shared->capacity() : 0;
  if (completions > capacity() - reserved_ || more_shared > capacity() - reserved_shared_) {
    return fail(ErrorCode::kResourceExhausted, "make an endpoint: the completion queue's capacity is taken",
                capacity());
  }
  reserved_ += completions;
  reserved_shared_ += more_shared;
  if (is_new) shared_queues_.push_back(shared);
  return {};
}

void VerbsQueue::release(std::uint32_t completions) {
  const std::scoped_lock lock(mutex_);
  reserved_ -= completions;
}

void VerbsQueue::attach(VerbsEndpoint& endpoint) {
  const std::scoped_lock lock(mutex_);
  endpoints_.push_back(&endpoint);
}

void VerbsQueue::detach(VerbsEndpoint& endpoint) {
  const std::scoped_lock lock(mutex_);
  std::erase(endpoints_, &endpoint);
}

// ---------------------------------------------------------------- bookkeeping

std::size_t VerbsQueue::room() const {
  const std::size_t used = static_cast<std::size_t>(ready_tail_ - ready_head_) + outstanding_;
  const std::size_t limit = std::size_t{capacity()} * 2;
  return used < limit ? limit - used : 0;
}

void VerbsQueue::end(const Completion& completion) {
  --outstanding_;
  push(completion);
}

void VerbsQueue::push(const Completion& completion) {
  YONDER_CHECK(ready_tail_ - ready_head_ < ready_.size(), "room() keeps the ready ring from overflowing");
  ready_[ready_tail_++ & (ready_.size() - 1)] = completion;
}

std::size_t VerbsQueue::pop(std::span<Completion> out) {
  std::size_t count = 0;
  while (count < out.size() && ready_head_ != ready_tail_) {
    out[count++] = ready_[ready_head_++ & (ready_.size() - 1)];
  }
  return count;
}

void VerbsQueue::map_qp(std::uint32_t qp_number, VerbsEndpoint& endpoint) {
  by_qp_[qp_number] = &endpoint;
  if (!orphans_.empty()) deliver_orphans();
}

void VerbsQueue::unmap_qp(std::uint32_t qp_number) { by_qp_.erase(qp_number); }

// ---------------------------------------------------------------- progress

std::size_t VerbsQueue::do_poll(std::span<Completion> out) {
  if (ready_tail_ - ready_head_ < out.size()) progress();
  const std::size_t count = pop(out);
  if (count == 0 && ++idle_polls_ % kTimerPolls == 0) check_timers(clock_.now());
  return count;
}

void VerbsQueue::progress() {
  if (bell_->is_raised()) [[unlikely]]
    attend();
  // With a full ready ring the completions wait in the ibv_cq, which has room
  // for all that are reserved.
  if (ready_tail_ - ready_head_ < capacity()) take_from_nic(kBatch);
  if (has_failures_) [[unlikely]] {
    has_failures_ = false;
    const std::scoped_lock lock(mutex_);
    for (VerbsEndpoint* endpoint : endpoints_) endpoint->recover_if_failed();
  }
}

// The lock is held while the endpoints work, so that accept() in another thread
// cannot change the list; nothing here calls the application.
void VerbsQueue::attend() {
  if (!bell_->take()) return;
  const std::scoped_lock lock(mutex_);
  for (VerbsEndpoint* endpoint : endpoints_) endpoint->on_attention();
}

void VerbsQueue::check_timers(Instant now) {
  if (now < next_timer_) return;
  next_timer_ = Deadline::never().instant();
  const std::scoped_lock lock(mutex_);
  for (VerbsEndpoint* endpoint : endpoints_) endpoint->on_time(now);
}

std::size_t VerbsQueue::take_from_nic(std::size_t limit) {
  std::array<ibv_wc, kBatch> batch;
  std::size_t total = 0;
  while (total < limit) {
    const std::size_t wanted = std::min(kBatch, limit - total);
    const int polled = ::ibv_poll_cq(cq_, static_cast<int>(wanted), batch.data());
    if (polled <= 0) break;
    const auto count = static_cast<std::size_t>(polled);
    for (std::size_t i = 0; i < count; ++i) dispatch_wc(batch[i]);
    total += count;
    if (count < wanted) break;  // That was all.
  }
  return total;
}

void VerbsQueue::dispatch_wc(const ibv_wc& wc) {
  void* slot = reinterpret_cast<void*>(wc.wr_id & ~kSlotKindMask);
  switch (SlotKind{wc.wr_id & kSlotKindMask}) {
    case SlotKind::kSend: {
      auto& send = *static_cast<SendSlot*>(slot);
      return send.owner->on_send_done(send, wc);
    }
    case SlotKind::kReceive: {
      auto& receive = *static_cast<ReceiveSlot*>(slot);
      return receive.endpoint->on_receive_done(receive, wc);
    }
    case SlotKind::kShared:
      return dispatch_shared(*static_cast<ReceiveSlot*>(slot), wc);
  }
}

void VerbsQueue::dispatch_shared(ReceiveSlot& slot, const ibv_wc& wc) {
  const auto found = by_qp_.find(wc.qp_num);
  if (wc.status != IBV_WC_SUCCESS) {
    slot.shared->post_again(slot);
    if (found != by_qp_.end()) found->second->on_shared_failure();
    return;
  }
  if (found == by_qp_.end()) {
    // The message was faster than accept(): at most one per buffer, kept until
    // the endpoint is attached.
    orphans_.emplace_back(&slot, wc);
    return;
  }
  found->second->count_message();
  push(slot.shared->take(slot, wc, found->second->id()));
}

void VerbsQueue::deliver_orphans() {
  auto waiting = std::exchange(orphans_, {});
  for (auto& [slot, wc] : waiting) dispatch_shared(*slot, wc);
}

// ---------------------------------------------------------------- waiting

Result<void> VerbsQueue::do_wait(Deadline deadline) {
  Instant now = clock_.now();
  deadline = deadline.or_default(Deadline::at(now + std::chrono::seconds(1)));
  const Instant spin_until = now + spin_;
  while (true) {
    progress();
    check_timers(now);
    if (ready_head_ != ready_tail_) return {};
    // acquire: pairs with wake().
    if (woken_.load(std::memory_order_relaxed) && woken_.exchange(false, std::memory_order_acq_rel))
      return {};
    if (deadline.passed(now)) return fail(ErrorCode::kDeadlineExceeded, "wait for completions");
    if (now < spin_until) {
      spin_pause();
    } else {
      sleep(deadline);
    }
    now = clock_.now();
  }
}

void VerbsQueue::sleep(Deadline deadline) {
  // Armed first, polled then: a completion in between is found by the poll, a
  // later one makes an event.
  if (::ibv_req_notify_cq(cq_, 0) != 0) return;
  if (take_from_nic(kBatch) != 0 || bell_->is_raised()) return;
  if (has_failures_ || ready_head_ != ready_tail_) return;
  pollfd fds[] = {{.fd = channel_->fd, .events = POLLIN, .revents = 0},
                  {.fd = bell_->event().fd().get(), .events = POLLIN, .revents = 0}};
  const Deadline until = Deadline::at(std::min(deadline.instant(), next_timer_));
  const auto left = os::time_left(until);
  ::ppoll(fds, 2, left ? &*left : nullptr, nullptr);
  if ((fds[0].revents & POLLIN) != 0) take_events();
}

void VerbsQueue::take_events() {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  while (device_->library().get_cq_event(channel_, &cq, &context) == 0) ++unacknowledged_events_;
  if (unacknowledged_events_ >= kEventBatch) {
    device_->library().ack_cq_events(cq_, std::exchange(unacknowledged_events_, 0));
  }
}

}  // namespace yonder::fabric::verbs
