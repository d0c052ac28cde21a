// Links that end and links that begin: see the drawing in endpoint.h.
#include <algorithm>
#include <limits>
#include <thread>

#include "yonder/base/check.h"
#include "yonder/fabric/verbs/internal/endpoint.h"
#include "yonder/os/wait.h"

namespace yonder::fabric::verbs {
namespace {

// How long an interrupted connection may take to resume before it counts as lost.
constexpr Duration kResumeWindow = std::chrono::seconds(3);
// A failed queue pair flushes its requests at once; destroying it is as good a
// proof that they are over, so this bound only matters for a broken driver.
constexpr Duration kDrainLimit = std::chrono::milliseconds(100);
// How many rebound regions are remembered; forgetting one costs one more refusal.
constexpr std::size_t kMaxRebound = 65536;

// The target (or its NIC) said no to this request, and executed none behind it.
bool is_refusal(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return true;
    default:
      return false;
  }
}

bool is_message(Op op) { return op == Op::kSend || op == Op::kWriteImm; }

// What a refusal means where nobody can be asked.
ErrorCode reason_without_asking(Op op, ibv_wc_status status) {
  if (status == IBV_WC_RNR_RETRY_EXC_ERR) return ErrorCode::kReceiverNotReady;
  if (op == Op::kSend) return ErrorCode::kMessageTooLong;
  return ErrorCode::kAccessDenied;
}

bool can_be_explained(Op op, ibv_wc_status status) {
  return op != Op::kSend && status != IBV_WC_RNR_RETRY_EXC_ERR;
}

}  // namespace

// ---------------------------------------------------------------- making

Result<std::unique_ptr<Endpoint>> VerbsEndpoint::connect(Core& core, const ConnectOptions& options,
                                                         const os::SocketAddress& to, VerbsQueue& queue) {
  YONDER_TRY(limits, limits_for(*core.device, options.endpoint));
  auto* shared = static_cast<VerbsReceiveQueue*>(options.endpoint.receive_queue);
  const std::uint32_t reserved = limits.depth + limits.receive_depth;
  YONDER_TRY_VOID(queue.reserve(reserved, shared));
  std::unique_ptr<VerbsEndpoint> endpoint(new VerbsEndpoint(core, queue, options.endpoint, limits));
  endpoint->phase_ = Phase::kResuming;
  endpoint->phase_ends_ = Deadline::never().instant();
  endpoint->origin_ = Origin{.to = to,
                             .identity = options.identity,
                             .connect_timeout = options.connect_timeout,
                             .min_backoff = options.min_backoff,
                             .max_backoff = options.max_backoff,
                             .reconnect = options.reconnect};
  YONDER_TRY_VOID(endpoint->allocate());
  YONDER_TRY_VOID(endpoint->connect_first());
  endpoint->show_to_queue();
  return endpoint;
}

// Last of all: the queue's thread, which may be another one, drives it from now on.
void VerbsEndpoint::show_to_queue() {
  verbs_queue_.attach(*this);
  verbs_queue_.bell()->raise();
}

// The bell of this call is its own: the queue's thread may be another one.
Result<void> VerbsEndpoint::connect_first() {
  YONDER_TRY(bell, Bell::create());
  const Deadline deadline = Deadline::after(core_.clock, origin_->connect_timeout);
  const OpenRequest request{.hello = core_.hello(origin_->identity)};
  YONDER_TRY(link, Link::dial(link_parts(bell), origin_->to, encode(request)));
  while (link->state() == Link::State::kDialing) {
    const Result<std::uint64_t> rung = bell->event().wait(deadline);
    if (!rung && link->state() == Link::State::kDialing) {
      link->retire(Link::Farewell::kSilent);
      return std::unexpected(rung.error());
    }
  }
  Result<void> greeted;
  if (link->state() == Link::State::kFailed) {
    greeted = std::unexpected(link->failure());
  } else {
    greeted = greet(link->reply());
  }
  if (!greeted) {
    link->retire(Link::Farewell::kTellPeer);
    return greeted;
  }
  link->set_bell(verbs_queue_.bell());
  first_link_ = std::move(link);
  return {};
}

Result<std::unique_ptr<Endpoint>> VerbsEndpoint::accept(Core& core, std::shared_ptr<Seat> seat) {
  VerbsQueue& queue = *seat->parts().queue;
  const Result<Limits> limits = limits_for(*core.device, seat->parts().options);
  YONDER_CHECK(limits.has_value(), "the listener has checked its options");
  std::unique_ptr<VerbsEndpoint> endpoint(new VerbsEndpoint(core, queue, seat->parts().options, *limits));
  endpoint->phase_ = Phase::kResuming;
  endpoint->phase_ends_ = Deadline::never().instant();
  endpoint->agreement_ = seat->parts().agreement;
  endpoint->seat_id_ = seat->id();
  endpoint->seat_ = std::move(seat);
  YONDER_TRY_VOID(endpoint->allocate());
  endpoint->show_to_queue();
  return endpoint;
}

Result<void> VerbsEndpoint::greet(const Reply& reply) {
  YONDER_TRY(agreement, agree(core_.hello(origin_->identity), reply.hello));
  agreement_ = agreement;
  greeting_ = reply.greeting;
  seat_id_ = reply.seat;
  return {};
}

// ---------------------------------------------------------------- a link ends

void VerbsEndpoint::recover() {
  has_failed_ = false;
  if (link_ == nullptr) return;
  const bool peer_left = link_->state() == Link::State::kDown;
  // The peer may be back on a newer link, and then left only this one, which it does after the
  // newer one is in the seat: so who saw it leave finds that. (attend() may have looked
  // earlier, and spent the time since on this very link.)
  if (welcome_arrival()) return;
  end_link();
  SendSlot* culprit = std::exchange(culprit_, nullptr);
  if (culprit != nullptr && is_refusal(culprit_status_)) {
    settle_refused(*culprit);
    // An accepting endpoint cannot dial; the disconnection calls the peer.
    if (seat_ != nullptr) retire_ended(Link::Farewell::kTellPeer);
    return start_resume(culprit, core_.clock.now());
  }
  if (culprit != nullptr || (seat_ != nullptr && peer_left)) return lose();
  if (origin_) settle_doubtful(std::nullopt);
  start_resume(nullptr, core_.clock.now());
}

// Afterwards no request is with the NIC, and all completions it made are taken.
void VerbsEndpoint::end_link() {
  link_->kill();
  drain();
  // Before and after: drivers may drop what a destroyed queue pair left in the completion
  // queue, shared receives included, and destroying it may still add to that.
  verbs_queue_.take_from_nic(std::numeric_limits<std::size_t>::max());
  link_->destroy_qp();
  verbs_queue_.take_from_nic(std::numeric_limits<std::size_t>::max());
  verbs_queue_.unmap_qp(link_->qp_number());
  has_failed_ = false;
  unposted_ = ring_.head();
  // Requests whose deadlines nobody could judge are back: look at all of them.
  earliest_deadline_ = core_.clock.now();
  verbs_queue_.note_timer(earliest_deadline_);
  retire_ended(Link::Farewell::kSilent);
  ended_ = std::exchange(link_, nullptr);
}

void VerbsEndpoint::retire_ended(Link::Farewell farewell) {
  if (ended_ != nullptr) std::exchange(ended_, nullptr)->retire(farewell);
}

// Waits until the last request and the last receive were flushed. Not for requests that are
// silent when they succeed: one that did would be waited for in vain, with the poller and
// all its other connections.
void VerbsEndpoint::drain() {
  const Instant limit = core_.clock.now() + kDrainLimit;
  const auto is_drained = [this] {
    const SendSlot* last = last_awaited();
    const bool sends =
        last == nullptr || (last_flushed_ != nullptr && last_flushed_->sequence >= last->sequence);
    const bool receives = receives_head_ == receives_tail_ ||
                          last_flushed_receive_ == &receives_[(receives_tail_ - 1) % receives_.size()];
    return sends && receives;
  };
  while (!is_drained() && core_.clock.now() < limit) {
    if (verbs_queue_.take_from_nic(64) == 0) std::this_thread::yield();
  }
}

const SendSlot* VerbsEndpoint::last_awaited() {
  for (std::uint64_t i = ring_.tail(); i-- > ring_.head();) {
    if (ring_.at(i).state == SlotState::kPosted && ring_.at(i).is_signalled()) return &ring_.at(i);
  }
  return nullptr;
}

// All behind the refused request were not executed and wait for the next link.
void VerbsEndpoint::settle_refused(SendSlot& refused) {
  for (std::uint64_t i = refused.sequence + 1; i < ring_.tail(); ++i) {
    if (ring_.at(i).state == SlotState::kPosted) ring_.at(i).state = SlotState::kQueued;
  }
  if (origin_ && can_be_explained(refused.op, culprit_status_)) {
    refused.state = SlotState::kRefused;
    return;
  }
  fail_slot(refused, reason_without_asking(refused.op, culprit_status_));
  if (rejected_ != 0) complete_rejected();
  pop_done();
}

// The rules are in endpoint.h, "What is repeated".
void VerbsEndpoint::settle_doubtful(std::optional<std::uint64_t> taken_by_peer) {
  std::uint64_t executed_end = ring_.head();
  std::uint64_t message = messages_done_;
  for (std::uint64_t i = ring_.head(); taken_by_peer && i < ring_.tail(); ++i) {
    SendSlot& slot = ring_.at(i);
    if (slot.state != SlotState::kPosted || !is_message(slot.op)) continue;
    if (++message > *taken_by_peer) break;
    executed_end = i + 1;
  }
  bool is_certain = false;  // From here on nothing was executed.
  bool is_lost = false;     // Something ahead failed.
  for (std::uint64_t i = ring_.head(); i < ring_.tail(); ++i) {
    SendSlot& slot = ring_.at(i);
    if (slot.state != SlotState::kPosted) continue;
    is_certain |= taken_by_peer && i >= executed_end && is_message(slot.op);
    if (is_lost) {
      fail_slot(slot, ErrorCode::kConnectionLost);
    } else if (slot.op == Op::kRead || is_certain) {
      slot.state = SlotState::kQueued;  // Also a read whose answer was lost.
    } else if (i < executed_end && !is_atomic(slot.op)) {
      succeed(slot);
    } else {
      is_lost = i >= executed_end;  // An executed atomic's old value is lost, no more.
      fail_slot(slot, ErrorCode::kConnectionLost);
    }
  }
  if (rejected_ != 0) complete_rejected();
  pop_done();
}

void VerbsEndpoint::start_resume(const SendSlot* refused, Instant now) {
  phase_ = Phase::kResuming;
  phase_ends_ = now + kResumeWindow;
  verbs_queue_.note_timer(phase_ends_);
  if (!origin_) return;  // The peer dials.
  ResumeRequest request{.seat = seat_id_, .epoch = origin_->identity.epoch, .received = messages_received_};
  if (refused != nullptr && refused->state == SlotState::kRefused) {
    request.refused = {.op = refused->op, .remote = refused->remote, .length = refused->length};
  }
  auto link = Link::dial(link_parts(verbs_queue_.bell()), origin_->to, encode(request));
  if (!link) return lose();
  dialing_ = std::move(*link);
}

// The peer is gone, or what we had with it. What was ever with the NIC and all
// receives fail; requests posted since then may wait for a reconnection.
void VerbsEndpoint::lose() {
  const bool again = origin_ && origin_->reconnect;
  phase_ = again ? Phase::kReconnecting : Phase::kBroken;
  if (dialing_ != nullptr) std::exchange(dialing_, nullptr)->retire(Link::Farewell::kSilent);
  retire_ended(Link::Farewell::kTellPeer);
  if (seat_ != nullptr) seat_->close();
  for (std::uint64_t i = ring_.head(); i < ring_.tail(); ++i) {
    SendSlot& slot = ring_.at(i);
    if (slot.state == SlotState::kRefused) {
      fail_slot(slot, ErrorCode::kAccessDenied);
    } else if (slot.was_posted && slot.state != SlotState::kDone) {
      fail_slot(slot, ErrorCode::kConnectionLost);
    }
  }
  fail_receives(ErrorCode::kConnectionLost);
  messages_done_ = messages_received_ = 0;
  if (!again) return fail_requests(ErrorCode::kConnectionLost);
  if (rejected_ != 0) complete_rejected();
  pop_done();
  backoff_ = origin_->min_backoff;
  dial_at_ = core_.clock.now();
  verbs_queue_.note_timer(dial_at_);
}

// ---------------------------------------------------------------- a link begins

void VerbsEndpoint::adopt(std::shared_ptr<Link> link) {
  link_ = std::move(link);
  phase_ = Phase::kOpen;
  culprit_ = nullptr;
  last_flushed_ = nullptr;
  last_flushed_receive_ = nullptr;
  verbs_queue_.map_qp(link_->qp_number(), *this);
  retire_ended(Link::Farewell::kSilent);
  post_receives_from(receives_head_);
  unposted_ = ring_.head();
  for (std::uint64_t i = ring_.head(); i < ring_.tail(); ++i) aim(ring_.at(i));
  ring_doorbell();
  if (link_->state() == Link::State::kDown) note_failure();
}

void VerbsEndpoint::on_attention() {
  if (first_link_ != nullptr) adopt(std::exchange(first_link_, nullptr));
  if (dialing_ != nullptr && dialing_->state() != Link::State::kDialing) finish_dial();
  welcome_arrival();
  if (link_ != nullptr && link_->state() == Link::State::kDown) note_failure();
}

// Whether the peer has come (back): with a count of our messages that it has taken.
bool VerbsEndpoint::welcome_arrival() {
  if (seat_ == nullptr) return false;
  const Seat::Arrival arrival = seat_->take_arrival();
  if (arrival.link == nullptr) return false;
  if (link_ != nullptr) {
    end_link();
    SendSlot* culprit = std::exchange(culprit_, nullptr);
    if (culprit != nullptr && is_refusal(culprit_status_)) settle_refused(*culprit);
  }
  for (const std::shared_ptr<Link>& skipped : arrival.skipped) take_messages_of(*skipped);
  settle_doubtful(arrival.taken_by_peer);
  adopt(arrival.link);
  return true;
}

// Of a link that came and went before we looked. It had none of our receives and requests,
// but it could take shared receives.
void VerbsEndpoint::take_messages_of(Link& skipped) {
  verbs_queue_.map_qp(skipped.qp_number(), *this);
  verbs_queue_.take_from_nic(std::numeric_limits<std::size_t>::max());
  verbs_queue_.unmap_qp(skipped.qp_number());
  has_failed_ = false;  // That it is dead is no news.
  skipped.retire(Link::Farewell::kSilent);
}

void VerbsEndpoint::finish_dial() {
  const std::shared_ptr<Link> link = std::exchange(dialing_, nullptr);
  bool is_up = link->state() == Link::State::kUp;
  if (is_up && phase_ == Phase::kReconnecting) is_up = greet(link->reply()).has_value();
  if (!is_up) {
    link->retire(Link::Farewell::kTellPeer);
    return phase_ == Phase::kResuming ? lose() : set_back_off(core_.clock.now());
  }
  if (phase_ == Phase::kResuming) explain_refused(link->reply());
  adopt(link);
}

void VerbsEndpoint::explain_refused(const Reply& reply) {
  if (ring_.empty() || ring_.front().state != SlotState::kRefused) return;
  SendSlot& slot = ring_.front();
  if (reply.reason != ErrorCode::kOk) {
    fail_slot(slot, reply.reason);
    if (rejected_ != 0) complete_rejected();
    return pop_done();
  }
  // The region was rebound: the same request, with what the NIC knows it by now.
  if (rebound_.size() >= kMaxRebound) rebound_.clear();
  rebound_[slot.remote.key.value] = reply.current_key;
  slot.state = SlotState::kQueued;
}

void VerbsEndpoint::set_back_off(Instant now) {
  dial_at_ = now + backoff_;
  backoff_ = std::min(backoff_ * 2, origin_->max_backoff);
  verbs_queue_.note_timer(dial_at_);
}

void VerbsEndpoint::dial_again(Instant now) {
  const OpenRequest request{.hello = core_.hello(origin_->identity), .replaces = seat_id_};
  auto link = Link::dial(link_parts(verbs_queue_.bell()), origin_->to, encode(request));
  if (!link) return set_back_off(now);
  dialing_ = std::move(*link);
  phase_ends_ = now + origin_->connect_timeout;
  verbs_queue_.note_timer(phase_ends_);
}

// ---------------------------------------------------------------- time

void VerbsEndpoint::on_time(Instant now) {
  if (earliest_deadline_ <= now) check_deadlines(now);
  if (phase_ == Phase::kResuming && phase_ends_ <= now) lose();
  if (phase_ == Phase::kReconnecting) {
    if (dialing_ == nullptr && dial_at_ <= now) dial_again(now);
    if (dialing_ != nullptr && phase_ends_ <= now) {
      std::exchange(dialing_, nullptr)->retire(Link::Farewell::kSilent);
      set_back_off(now);
    }
  }
  if (!ring_.empty()) verbs_queue_.note_timer(earliest_deadline_);
  if (phase_ == Phase::kResuming) verbs_queue_.note_timer(phase_ends_);
  if (phase_ == Phase::kReconnecting) {
    verbs_queue_.note_timer(dialing_ != nullptr ? phase_ends_ : dial_at_);
  }
}

// The deadline of a request that the NIC will not report is that of the next one
// it reports: until then nobody can know that it is not long done.
void VerbsEndpoint::check_deadlines(Instant now) {
  const auto has_deadline = [this](const SendSlot& slot) {
    const bool is_over = slot.state == SlotState::kDone || slot.state == SlotState::kRejected;
    const bool is_unknown = link_ != nullptr && slot.state == SlotState::kPosted && !slot.is_signalled();
    return !is_over && !is_unknown;
  };
  bool is_with_nic = false;
  for (std::uint64_t i = ring_.head(); link_ != nullptr && i < ring_.tail(); ++i) {
    const SendSlot& slot = ring_.at(i);
    is_with_nic |= slot.state == SlotState::kPosted && has_deadline(slot) && slot.deadline.passed(now);
  }
  // Only a destroyed queue pair is sure not to touch the buffers any more. What
  // completes while it is being taken down has made it after all.
  if (is_with_nic) end_link();
  earliest_deadline_ = Deadline::never().instant();
  for (std::uint64_t i = ring_.head(); i < ring_.tail(); ++i) {
    SendSlot& slot = ring_.at(i);
    if (!has_deadline(slot)) continue;
    if (slot.deadline.passed(now)) {
      fail_slot(slot, ErrorCode::kDeadlineExceeded);
    } else {
      earliest_deadline_ = std::min(earliest_deadline_, slot.deadline.instant());
    }
  }
  if (is_with_nic) return lose();
  if (rejected_ != 0) complete_rejected();
  pop_done();
}

}  // namespace yonder::fabric::verbs
