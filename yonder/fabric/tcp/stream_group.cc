#include "yonder/fabric/tcp/internal/stream_group.h"

#include <algorithm>
#include <utility>

namespace yonder::fabric::tcp {
namespace {

std::uint64_t token_of(StreamId id) { return std::uint64_t{id.use} << 32 | id.slot; }
StreamId id_of(std::uint64_t token) {
  return {.slot = static_cast<std::uint32_t>(token), .use = static_cast<std::uint32_t>(token >> 32)};
}

}  // namespace

Result<std::shared_ptr<StreamGroup>> StreamGroup::create(std::size_t arrivals) {
  YONDER_TRY(epoll, os::Epoll::create());
  YONDER_TRY(bell, Doorbell::create());
  return std::make_shared<StreamGroup>(std::move(epoll), std::move(bell), arrivals);
}

Result<StreamId> StreamGroup::add(std::unique_ptr<TargetStream> stream) {
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const std::uint32_t index = free_slots_.back();
  Slot& slot = slots_[index];
  const StreamId id{.slot = index, .use = slot.use};
  YONDER_TRY_VOID(epoll_.add(stream->transport().socket().fd(), os::kEpollReadable, token_of(id)));
  free_slots_.pop_back();
  slot.stream = std::move(stream);
  slot.interest = os::kEpollReadable;
  count_.fetch_add(1, std::memory_order_relaxed);
  // Bytes may have come with the hand-shake and lie in the TLS layer.
  if (slot.stream->transport().has_buffered()) timer_ = Instant();
  return id;
}

void StreamGroup::free_slot(std::uint32_t slot) {
  // Closing the socket takes it out of the epoll.
  slots_[slot].stream.reset();
  ++slots_[slot].use;
  free_slots_.push_back(slot);
  std::ranges::replace(busy_, slot, kNone);
  count_.fetch_sub(1, std::memory_order_relaxed);
}

TargetStream* StreamGroup::find(StreamId id) {
  if (id.slot >= slots_.size() || slots_[id.slot].use != id.use) return nullptr;
  return slots_[id.slot].stream.get();
}

void StreamGroup::remove(StreamId id) {
  if (find(id) != nullptr) free_slot(id.slot);
}

void StreamGroup::remove_all_of(const void* owner) {
  for (std::uint32_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].stream != nullptr && slots_[i].stream->owner() == owner) free_slot(i);
  }
}

void StreamGroup::lose(std::uint32_t slot, const Error&) {
  const std::shared_ptr<Inbox> inbox = slots_[slot].stream->inbox();
  free_slot(slot);
  if (inbox == nullptr) return;
  inbox->lost.store(true);
  tell_news();
}

void StreamGroup::nudge(StreamId id, Instant now) {
  if (find(id) != nullptr) (void)serve(id.slot, now);
}

bool StreamGroup::serve(std::uint32_t index, Instant now) {
  Slot& slot = slots_[index];
  const bool had_arrivals = arrivals_.has_any();
  const Result<bool> worked = slot.stream->progress(now);
  if (!worked) {
    lose(index, worked.error());
    return true;
  }
  if (!had_arrivals && arrivals_.has_any()) bell_->ring();
  if (!is_busy(index)) leave_to_epoll(index);
  timer_ = std::min(timer_, slot.stream->next_timer());
  return *worked;
}

bool StreamGroup::is_busy(std::uint32_t slot) const { return std::ranges::find(busy_, slot) != busy_.end(); }

void StreamGroup::leave_to_epoll(std::uint32_t index) {
  const TargetStream& stream = *slots_[index].stream;
  // What it could do at once no event will tell: look at it soon.
  if (stream.wants_turn()) timer_ = Instant();
  // While we do not read, the end of the stream must be asked for.
  set_interest(index, (stream.wants_read() ? os::kEpollReadable : os::kEpollPeerClosed) |
                          (stream.wants_write() ? os::kEpollWritable : 0u));
}

// A disarmed stream is taken out altogether: as long as it is in, the kernel
// calls epoll for every packet.
void StreamGroup::set_interest(std::uint32_t index, std::uint32_t interest) {
  Slot& slot = slots_[index];
  if (interest == slot.interest) return;
  const os::Fd& fd = slot.stream->transport().socket().fd();
  const std::uint64_t token = token_of({.slot = index, .use = slot.use});
  Result<void> changed;
  if (interest == 0) {
    changed = epoll_.remove(fd);
  } else if (slot.interest == 0) {
    changed = epoll_.add(fd, interest, token);
  } else {
    changed = epoll_.modify(fd, interest, token);
  }
  // Out of memory for the entry: the stream would never be served again.
  if (!changed) slot.stream->transport().socket().shut_down();
  slot.interest = interest;
}

void StreamGroup::note_busy(std::uint32_t slot) {
  if (is_busy(slot)) return;
  if (busy_[next_busy_] != kNone) leave_to_epoll(busy_[next_busy_]);
  busy_[next_busy_] = slot;
  in_vain_[next_busy_] = 0;
  next_busy_ = (next_busy_ + 1) % kBusy;
  set_interest(slot, 0);
}

void StreamGroup::prepare_to_sleep() {
  for (std::uint32_t& slot : busy_) {
    if (slot != kNone) leave_to_epoll(std::exchange(slot, kNone));
  }
  rounds_ = 0;
}

bool StreamGroup::serve_busy(Instant now) {
  bool worked = false;
  for (std::size_t i = 0; i < kBusy; ++i) {
    if (busy_[i] == kNone) continue;
    if (serve(busy_[i], now)) {
      in_vain_[i] = 0;
      worked = true;
    } else if (++in_vain_[i] >= kPatience) {
      leave_to_epoll(std::exchange(busy_[i], kNone));
    }
  }
  return worked;
}

bool StreamGroup::serve_ready(Instant now) {
  std::array<os::EpollEvent, 64> events;
  const auto ready = epoll_.wait(events, Deadline::at(Instant::from_ns(1)));
  if (!ready) return false;
  bool worked = false;
  for (const os::EpollEvent& event : *ready) {
    const StreamId id = id_of(event.token);
    const TargetStream* stream = find(id);
    if (stream == nullptr) continue;
    const bool unread_end = !stream->wants_read() && (event.bits & os::kEpollPeerClosed) != 0;
    if (unread_end || (event.bits & (os::kEpollError | os::kEpollHangUp)) != 0) {
      lose(id.slot, Error(ErrorCode::kConnectionLost, "the peer closed the connection"));
      worked = true;
      continue;
    }
    note_busy(id.slot);
    worked |= serve(id.slot, now);
  }
  return worked;
}

// Timers are rare (a stalled peer, a missing receive): when the earliest is due,
// all streams are looked at and the bound is computed afresh.
bool StreamGroup::serve_due(Instant now, bool receives_came) {
  timer_ = kNoTimer;
  bool worked = false;
  for (std::uint32_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].stream == nullptr) continue;
    const TargetStream& stream = *slots_[i].stream;
    if (stream.next_timer() <= now || stream.wants_turn() || stream.transport().has_buffered() ||
        (receives_came && stream.awaits_receive())) {
      worked |= serve(i, now);
    } else {
      timer_ = std::min(timer_, stream.next_timer());
    }
  }
  return worked;
}

// The flag first, then who serves: a hand-over changes who serves first and then
// serves, so the new one sees the flag (all sequentially consistent).
void StreamGroup::kick() {
  kicked_.store(true);
  if (attention_.is_applications() || service_bell_ == nullptr) {
    bell_->ring();
  } else {
    service_bell_->ring();
  }
}

bool StreamGroup::progress(Instant now) {
  if (is_empty()) return false;
  bool worked = false;
  const bool receives_came = is_kicked() && kicked_.exchange(false);
  if (receives_came || timer_ <= now) worked |= serve_due(now, receives_came);
  worked |= serve_busy(now);
  if (rounds_++ % kDirectRounds == 0) worked |= serve_ready(now);
  return worked;
}

bool StreamGroup::wants_turn() const {
  return timer_ == Instant() || std::ranges::any_of(busy_, [this](std::uint32_t slot) {
           return slot != kNone && slots_[slot].stream->wants_turn();
         });
}

Instant StreamGroup::next_timer() const { return timer_; }

}  // namespace yonder::fabric::tcp
