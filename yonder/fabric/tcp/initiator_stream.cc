// Requests: posting, deadlines, completions. What moves bytes is in initiator_io.cc.
#include "yonder/fabric/tcp/internal/initiator_stream.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace yonder::fabric::tcp {
namespace {

std::uint32_t ring_mask(std::uint32_t depth) { return std::bit_ceil(2 * depth) - 1; }  // I3

}  // namespace

InitiatorStream::InitiatorStream(const Options& options, Account& account, FinishedRing& finished)
    : options_(options),
      account_(account),
      finished_(finished),
      mask_(ring_mask(options.limits.depth)),
      slots_(std::size_t{mask_} + 1),
      headers_(slots_.size(),
               {.tenant = options.identity.tenant.value(), .epoch = options.identity.epoch.value()}),
      pieces_(std::make_unique_for_overwrite<LocalPiece[]>(slots_.size() * kMaxPieces)),
      inlined_(std::make_unique_for_overwrite<std::byte[]>(slots_.size() * options.limits.max_inline)),
      input_(std::make_unique_for_overwrite<std::byte[]>(kInputBytes)) {}

void InitiatorStream::attach(std::unique_ptr<Transport> transport) { transport_ = std::move(transport); }

// Flattened: what happens for every request happens without calls.
[[gnu::flatten]] InitiatorStream::Posted InitiatorStream::post(std::span<const WorkRequest> requests,
                                                               Instant now) {
  Posted posted;
  if (head_ == tail_) tail_ = send_ = head_ = (head_ + mask_) & ~mask_;
  const Instant usual_deadline = now + options_.default_timeout;
  for (const WorkRequest& request : requests) {
    if (account_.requests == account_.depth) break;
    if (head_ - tail_ > mask_) {  // I3
      posted.sent = fail(ErrorCode::kPeerTooSlow, "the peer answers nothing", head_ - tail_);
      return posted;
    }
    const bool is_usual = request.deadline.is_default();
    take(request, now, is_usual ? usual_deadline : request.deadline.instant());
    ++posted.count;
  }
  if (transport_ == nullptr) return posted;
  if (const Result<bool> sent = flush(); !sent) posted.sent = std::unexpected(sent.error());
  return posted;
}

void InitiatorStream::take(const WorkRequest& request, Instant now, Instant deadline) {
  ++account_.requests;
  const ErrorCode refused = check_request(request, options_.limits);
  if (refused != ErrorCode::kOk) {
    return complete({.user_data = request.user_data, .op = request.op, .flags = request.flags}, refused, 0,
                    0);
  }
  fill(request, now, deadline);
  earliest_ = std::min(earliest_, deadline);
  ++head_;
}

void InitiatorStream::fill(const WorkRequest& request, Instant now, Instant deadline) {
  Slot& slot = this->slot(head_);
  slot.user_data = request.user_data;
  slot.deadline = deadline;
  slot.flags = request.flags;
  slot.op = request.op;
  slot.state = State::kOpen;
  slot.length = keep_pieces(slot, request.local);
  // Field by field in place: the others never change.
  RequestHeader& out = header(head_);
  out.op = static_cast<std::uint8_t>(request.op);
  out.flags = has(request.flags, RequestFlags::kUnsignalled) ? kWireUnsignalled : std::uint16_t{0};
  out.id = head_;
  out.length = slot.length;
  out.key = request.remote.key.value;
  out.offset = request.remote.offset;
  out.operand = request.operand;
  out.compare = request.compare;
  out.immediate = request.immediate;
  out.budget_ns = static_cast<std::uint64_t>(std::max<std::int64_t>(0, (deadline - now).count()));
  slot.last_chunk.length = (slot.length - 1) % kChunkBytes + 1;
  if (has(request.flags, RequestFlags::kInline)) copy_inline(slot);
}

// Returns their bytes; the sum fits, for check_request() has seen it.
std::uint32_t InitiatorStream::keep_pieces(Slot& slot, std::span<const LocalPiece> pieces) {
  slot.piece_count = static_cast<std::uint8_t>(pieces.size());
  if (pieces.size() == 1) {
    slot.piece = pieces.front();
    return slot.piece.length;
  }
  std::ranges::copy(pieces, &pieces_[std::size_t{head_ & mask_} * kMaxPieces]);
  std::uint32_t length = 0;
  for (const LocalPiece& piece : pieces) length += piece.length;
  return length;
}

void InitiatorStream::copy_inline(Slot& slot) {
  std::byte* to = &inlined_[std::size_t{head_ & mask_} * options_.limits.max_inline];
  std::byte* end = to;
  for (const LocalPiece& piece : pieces(head_)) end = std::copy_n(piece.data, piece.length, end);
  slot.piece = {.data = to, .length = slot.length};
  slot.piece_count = 1;
}

// ---------------------------------------------------------------- ends

bool InitiatorStream::expire(Instant now) {
  if (now < earliest_) return false;
  earliest_ = kNoTimer;
  bool expired = false;
  for (std::uint32_t i = tail_; i != head_; ++i) {
    const Slot& s = slot(i);
    // An unsignalled request that was sent may have succeeded long ago.
    const bool waits = s.state == State::kOpen && !(is_sent(i) && has(s.flags, RequestFlags::kUnsignalled));
    if (!waits) continue;
    if (s.deadline <= now) {
      give_up(i);
      expired = true;
    } else {
      earliest_ = std::min(earliest_, s.deadline);
    }
  }
  drop_retired();
  return expired;
}

void InitiatorStream::give_up(std::uint32_t sequence) {
  Slot& s = slot(sequence);
  const bool is_partly_sent = sequence == send_ && send_offset_ != 0;
  s.state = is_sent(sequence) || is_partly_sent ? State::kGivenUp : State::kRetired;
  if (is_partly_sent && s.sends_payload()) spill_rest();
  complete(s, ErrorCode::kDeadlineExceeded, 0, 0);
}

void InitiatorStream::end_all(ErrorCode status) {
  transport_.reset();
  for (std::uint32_t i = tail_; i != head_; ++i) {
    Slot& s = slot(i);
    if (s.state == State::kOpen) complete(s, status, 0, 0);
    s.state = State::kRetired;
  }
  tail_ = send_ = head_;
  send_offset_ = 0;
  spill_.clear();
  spill_sent_ = 0;
  parser_.reset();
  earliest_ = kNoTimer;
}

}  // namespace yonder::fabric::tcp
