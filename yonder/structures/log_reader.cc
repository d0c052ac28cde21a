#include <algorithm>
#include <utility>

#include "yonder/base/check.h"
#include "yonder/remote/chain.h"
#include "yonder/structures/internal/log_unit.h"
#include "yonder/structures/log.h"

namespace yonder::structures {

using fabric::LocalPiece;
using internal::LogShape;
using internal::SlotKind;
using internal::SlotState;

namespace {

// A look brings about so many bytes of data: one trip pays for many records.
constexpr std::uint64_t kWindowBytes = 16 * 1024;
constexpr Duration kFirstPause = std::chrono::microseconds(5);
constexpr Duration kLongestPause = std::chrono::milliseconds(1);

std::uint64_t window_slots(const LogShape& shape) {
  return std::min(std::max<std::uint64_t>(kWindowBytes / shape.slot_bytes, 8), shape.slots);
}

}  // namespace

LogReader::LogReader(Log& log, LogPosition from)
    : log_(log),
      next_slot_(from.slot),
      next_index_(from.index),
      from_beginning_(from == LogPosition()),
      pause_(kFirstPause) {}

Task<Result<std::span<const LogRecord>>> LogReader::async_next(Deadline deadline) {
  deadline = log_.port_.deadline(deadline);
  records_.clear();
  if (from_beginning_) {
    if (const auto refreshed = co_await log_.refresh_bounds(deadline); !refreshed) {
      co_return std::unexpected(refreshed.error());
    }
    next_slot_ = log_.seen_head_;
    from_beginning_ = false;
  }
  // Where nothing was last time, a look at the words comes first.
  bool with_data = pause_ == kFirstPause;
  std::uint64_t slots = window_slots(log_.shape_);
  for (;;) {
    if (const auto fetched = co_await fetch(slots, with_data, deadline); !fetched) {
      co_return std::unexpected(fetched.error());
    }
    const Result<std::uint64_t> more = take_units();
    if (!more) {
      const Error why = more.error();
      if (why != ErrorCode::kCorrupt) co_return std::unexpected(why);
      if (const auto whole = co_await wait_for_repair(why, deadline); !whole)
        co_return std::unexpected(whole.error());
      with_data = true;
      continue;
    }
    if (!records_.empty()) break;
    if (next_slot_ - first_ >= states_.size()) continue;  // Nothing but sealed slots.
    if (*more != 0) {
      slots = std::max(window_slots(log_.shape_), *more);
      with_data = true;
      continue;
    }
    if (const auto waited = co_await wait_or_seal(deadline); !waited)
      co_return std::unexpected(waited.error());
    slots = window_slots(log_.shape_);
    with_data = false;
  }
  pause_ = kFirstPause;
  co_return std::span<const LogRecord>(records_);
}

Task<Result<void>> LogReader::fetch(std::uint64_t slots, bool with_data, Deadline deadline) {
  const LogShape& shape = log_.shape_;
  first_ = next_slot_;
  states_.resize(slots);
  data_.resize(with_data ? slots * shape.slot_bytes : 0);
  const std::uint64_t front = std::min(slots, shape.slots - shape.ring(first_));
  const std::span<std::uint64_t> states(states_);
  const std::span<std::byte> data(data_);
  const std::uint64_t front_bytes = std::min<std::uint64_t>(front * shape.slot_bytes, data.size());
  // Words first: what they say is there is in the data that is read after them.
  remote::Chain chain(log_.port_);
  chain.read(LocalPiece::of(std::as_bytes(states.first(front))), log_.token_.at(shape.state_offset(first_)));
  chain.read(LocalPiece::of(std::as_bytes(states.subspan(front))), log_.token_.at(LogShape::kStatesOffset));
  chain.read(LocalPiece::of(data.first(front_bytes)), log_.token_.at(shape.data_offset(first_)));
  chain.read(LocalPiece::of(data.subspan(front_bytes)), log_.token_.at(shape.data_begin()));
  co_return co_await chain.run(deadline);
}

Result<std::uint64_t> LogReader::take_units() {
  const LogShape& shape = log_.shape_;
  while (next_slot_ - first_ < states_.size()) {
    const std::uint64_t at = next_slot_ - first_;
    const SlotState state = SlotState::of(states_[at], shape.lap(next_slot_));
    if (state.kind == SlotKind::kEmpty) return 0;
    if (state.lap != shape.lap(next_slot_)) {
      if (!records_.empty()) return 0;
      return fail(ErrorCode::kNotFound, "read a log: this was trimmed", next_slot_);
    }
    if (state.unit_slots == 0 || state.unit_slots > shape.slots) {
      return fail(ErrorCode::kCorrupt, "read a log: a unit's length", next_slot_);
    }
    if (state.kind == SlotKind::kSealed) {
      next_slot_ += state.unit_slots;
      next_index_ = 0;
      continue;
    }
    if ((at + state.unit_slots) * shape.slot_bytes > data_.size()) return state.unit_slots;
    const auto taken = take_unit(
        next_slot_, std::span(data_).subspan(at * shape.slot_bytes, state.unit_slots * shape.slot_bytes));
    if (!taken) {
      // What came before is good; the next call will find the damage again.
      if (!records_.empty()) return 0;
      after_damaged_ = next_slot_ + state.unit_slots;
      return std::unexpected(taken.error());
    }
    next_slot_ += state.unit_slots;
    next_index_ = 0;
  }
  return 0;
}

Result<void> LogReader::take_unit(std::uint64_t slot, std::span<const std::byte> bytes) {
  std::vector<std::span<const std::byte>> found;
  YONDER_TRY_VOID(internal::parse_unit(slot, bytes, found));
  for (std::size_t i = next_index_; i < found.size(); ++i) {
    records_.push_back(
        {.position = {.slot = slot, .index = static_cast<std::uint32_t>(i)}, .bytes = found[i]});
  }
  return {};
}

Task<Result<void>> LogReader::expect_untrimmed(Deadline deadline) {
  const auto refreshed = co_await log_.refresh_bounds(deadline);
  if (!refreshed || next_slot_ >= log_.seen_head_) co_return refreshed;
  co_return fail(ErrorCode::kNotFound, "read a log: this was trimmed", next_slot_);
}

// A unit that is trimmed and overwritten while it is read looks damaged, and so does one
// whose data was lost on the way, until its writer has sealed it.
Task<Result<void>> LogReader::wait_for_repair(Error damage, Deadline deadline) {
  if (const auto there = co_await expect_untrimmed(deadline); !there) co_return there;
  const Instant now = log_.port_.clock().now();
  if (damaged_slot_ != next_slot_) {
    damaged_slot_ = next_slot_;
    damaged_at_ = now;
  }
  if (now - damaged_at_ > std::chrono::microseconds(log_.shape_.lease_us)) co_return std::unexpected(damage);
  if (deadline.passed(now))
    co_return fail(ErrorCode::kDeadlineExceeded, "read a log: a unit's repair", next_slot_);
  co_await log_.port_.scheduler().sleep_for(pause_);
  pause_ = std::min(pause_ * 2, kLongestPause);
  co_return Result<void>();
}

Task<Result<void>> LogReader::wait_or_seal(Deadline deadline) {
  if (const auto there = co_await expect_untrimmed(deadline); !there) co_return there;
  const Instant now = log_.port_.clock().now();
  const bool reserved = next_slot_ < log_.seen_tail_;
  if (reserved && next_slot_ >= known_tail_) {
    known_tail_ = log_.seen_tail_;
    known_at_ = now;
  }
  const Duration lease = std::chrono::microseconds(log_.shape_.lease_us);
  // Where the slot is not free yet, who reserved it waits as well.
  if (reserved && next_slot_ < log_.seen_head_ + log_.shape_.slots && now - known_at_ > lease) {
    co_return co_await log_.seal(next_slot_, states_[next_slot_ - first_], 1, deadline);
  }
  if (deadline.passed(now))
    co_return fail(ErrorCode::kDeadlineExceeded, "read a log: nothing came", next_slot_);
  co_await log_.port_.scheduler().sleep_for(pause_);
  pause_ = std::min(pause_ * 2, kLongestPause);
  co_return Result<void>();
}

}  // namespace yonder::structures
