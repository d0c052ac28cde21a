// The bytes of an initiator's stream: sending requests, receiving replies.
#include <algorithm>
#include <cstring>

#include "yonder/base/check.h"
#include "yonder/fabric/tcp/internal/initiator_stream.h"

namespace yonder::fabric::tcp {
namespace {

constexpr std::uint64_t kHeaderBytes = sizeof(RequestHeader);
constexpr std::uint64_t kChunkStride = sizeof(ChunkHeader) + kChunkBytes;
constexpr ChunkHeader kFullChunk{.length = kChunkBytes};
constexpr ChunkHeader kAbort{.status = static_cast<std::uint16_t>(ErrorCode::kDeadlineExceeded)};

// The first word of a reply that brings what a read asked for.
constexpr std::uint64_t kReadReply = reply_kind(static_cast<std::uint8_t>(Op::kRead), ErrorCode::kOk);

// From here on a read is worth receiving in place instead of through the buffer.
constexpr std::uint32_t kLongRead = 32 * 1024;
// What may then be read beyond the place: the next headers, little payload.
constexpr std::size_t kShortInput = 4096;

std::uint64_t chunk_count(std::uint32_t length) {
  return (std::uint64_t{length} + kChunkBytes - 1) / kChunkBytes;
}

// Small objects are most of what is read; for them a call of memcpy costs as much
// as the copy.
void copy_payload(std::byte* to, const std::byte* from, std::size_t count) {
  constexpr std::size_t kStep = 16;
  if (count < kStep || count > 256) {
    std::memcpy(to, from, count);
    return;
  }
  for (std::size_t at = 0; at + kStep <= count; at += kStep) std::memcpy(to + at, from + at, kStep);
  std::memcpy(to + count - kStep, from + count - kStep, kStep);  // The rest, overlapping.
}

std::unexpected<Error> malformed(const char* what, std::int64_t detail = 0) {
  return fail(ErrorCode::kMalformedFrame, what, detail);
}

}  // namespace

Result<bool> InitiatorStream::progress() {
  bool worked = false;
  if (wants_write()) {
    YONDER_TRY(sent, flush());
    worked = sent;
  }
  YONDER_TRY(received, receive());
  return worked || received;
}

// ---------------------------------------------------------------- sending

std::uint64_t InitiatorStream::frame_bytes(const Slot& slot) {
  if (!slot.sends_payload()) return kHeaderBytes;
  const std::uint64_t chunk_headers =
      is_chunked(slot.length) ? chunk_count(slot.length) * sizeof(ChunkHeader) : 0;
  return kHeaderBytes + slot.length + chunk_headers;
}

Result<bool> InitiatorStream::flush() {
  bool worked = false;
  while (has_unsent()) {
    Gather parts;
    gather(parts);
    if (parts.is_empty()) break;
    YONDER_TRY(count, transport_->send(parts.parts()));
    worked |= count != 0;
    if (count == parts.bytes() && !parts.is_full()) {  // As nearly always.
      all_sent();
      break;
    }
    advance_sent(count);
    if (count < parts.bytes()) return worked;
  }
  if (transport_->unsent()) YONDER_TRY_VOID(transport_->flush());
  return worked;
}

void InitiatorStream::gather(Gather& out) const {
  out.add(spill_.data() + spill_sent_, spill_.size() - spill_sent_);
  std::uint64_t offset = send_offset_;
  for (std::uint32_t i = send_; i != head_ && !out.is_full(); ++i, offset = 0) {
    const Slot& s = slot(i);
    if (s.state == State::kRetired) continue;  // Expired before it was sent.
    if (offset == 0 && !s.sends_payload()) {
      out.add(&header(i), kHeaderBytes);
    } else {
      gather_frame(out, i, offset, frame_bytes(s));
    }
  }
}

void InitiatorStream::gather_frame(Gather& out, std::uint32_t sequence, std::uint64_t from,
                                   std::uint64_t to) const {
  const Slot& s = slot(sequence);
  if (from < kHeaderBytes) {
    out.add(reinterpret_cast<const std::byte*>(&header(sequence)) + from, std::min(to, kHeaderBytes) - from);
    from = kHeaderBytes;
  }
  if (from >= to) return;
  if (is_chunked(s.length)) return gather_chunks(out, sequence, from - kHeaderBytes, to - kHeaderBytes);
  add_range(out, pieces(sequence), from - kHeaderBytes, to - kHeaderBytes);
}

// Offsets count from the end of the request's header.
void InitiatorStream::gather_chunks(Gather& out, std::uint32_t sequence, std::uint64_t from,
                                    std::uint64_t to) const {
  const Slot& s = slot(sequence);
  const std::uint64_t last = chunk_count(s.length) - 1;
  while (from < to && !out.is_full()) {
    const std::uint64_t chunk = from / kChunkStride;
    const std::uint64_t within = from % kChunkStride;
    const ChunkHeader& head = chunk == last ? s.last_chunk : kFullChunk;
    const std::uint64_t chunk_end = std::min(to - chunk * kChunkStride, sizeof(ChunkHeader) + head.length);
    if (within < sizeof(ChunkHeader)) {
      const std::uint64_t end = std::min<std::uint64_t>(chunk_end, sizeof(ChunkHeader));
      out.add(reinterpret_cast<const std::byte*>(&head) + within, end - within);
      from += end - within;
    } else {
      const std::uint64_t start = chunk * kChunkBytes + within - sizeof(ChunkHeader);
      add_range(out, pieces(sequence), start, start + (chunk_end - within));
      from += chunk_end - within;
    }
  }
}

void InitiatorStream::all_sent() {
  spill_.clear();
  spill_sent_ = 0;
  send_ = head_;
  send_offset_ = 0;
}

void InitiatorStream::advance_sent(std::size_t count) {
  const std::size_t spilled = std::min(count, spill_.size() - spill_sent_);
  spill_sent_ += spilled;
  if (spill_sent_ == spill_.size()) {
    spill_.clear();
    spill_sent_ = 0;
  }
  std::uint64_t left = count - spilled;
  while (left != 0) {
    Slot& s = slot(send_);
    const std::uint64_t rest = s.state == State::kRetired ? 0 : frame_bytes(s) - send_offset_;
    if (left < rest) {
      send_offset_ += left;
      return;
    }
    left -= rest;
    send_offset_ = 0;
    ++send_;
  }
}

// The request at send_ is given up while a part of its frame is on its way. The
// frame must still end properly: what belongs to the chunk that has begun is
// copied, and an abort follows unless that was the last one.
void InitiatorStream::spill_rest() {
  const Slot& s = slot(send_);
  const std::uint64_t all = frame_bytes(s);
  std::uint64_t end = all;
  if (is_chunked(s.length)) {
    const std::uint64_t sent = send_offset_ < kHeaderBytes ? 0 : send_offset_ - kHeaderBytes;
    end = std::min(all, kHeaderBytes + (sent + kChunkStride - 1) / kChunkStride * kChunkStride);
  }
  Gather rest;
  gather_frame(rest, send_, send_offset_, end);
  spill_.reserve(rest.bytes() + sizeof kAbort);
  const auto append = [this](const void* data, std::size_t length) {
    const auto* bytes = static_cast<const std::byte*>(data);
    spill_.insert(spill_.end(), bytes, bytes + length);
  };
  for (const iovec& part : rest.parts()) append(part.iov_base, part.iov_len);
  if (end < all) append(&kAbort, sizeof kAbort);
  ++send_;
  send_offset_ = 0;
}

// ---------------------------------------------------------------- receiving

// Bytes beyond the payload that is being placed are read into our buffer and
// copied from there: as many as there are if replies are small, few if the next
// thing to come is long.
std::size_t InitiatorStream::input_limit() const {
  const bool in_reply = !parser_.complete();
  if (in_reply) return reply_goes_to_user() && parser_.left() > kLongRead ? kShortInput : kInputBytes;
  if (!has_outstanding()) return kShortInput;
  const Slot& next = slot(tail_);
  return next.op == Op::kRead && next.length > kLongRead ? kShortInput : kInputBytes;
}

std::size_t InitiatorStream::find_places(Gather& out) const {
  if (parser_.ready() == 0 || !reply_goes_to_user()) return 0;
  add_range(out, pieces(reply_slot_), placed_, std::uint64_t{placed_} + parser_.ready());
  return parser_.ready();
}

Result<bool> InitiatorStream::receive() {
  for (bool worked = false;; worked = true) {
    Gather into;
    const std::size_t placed = find_places(into);
    into.add(input_.get(), input_limit());
    YONDER_TRY(count, transport_->receive(into.parts()));
    if (count == 0) return worked;
    const std::size_t direct = std::min(count, placed);
    if (direct != 0) {
      parser_.take(static_cast<std::uint32_t>(direct));
      placed_ += static_cast<std::uint32_t>(direct);
      if (parser_.complete()) end_reply(ErrorCode::kOk);
    }
    YONDER_TRY_VOID(consume({input_.get(), count - direct}));
    // A short read emptied the socket: asking again would only cost a system call.
    if (count < into.bytes() && !transport_->has_buffered()) return true;
  }
}

// Flattened: what happens for every reply happens without calls.
[[gnu::flatten]] Result<void> InitiatorStream::consume(std::span<const std::byte> input) {
  for (;;) {
    if (!parser_.mid_frame()) take_short_reads(input);
    switch (parser_.next(input)) {
      case FrameParser::Event::kNeedMore:
        return {};
      case FrameParser::Event::kHeader:
        YONDER_TRY_VOID(begin_reply());
        if (parser_.complete()) end_reply(parser_.reply().code());
        break;
      case FrameParser::Event::kPayload: {
        const auto count = static_cast<std::uint32_t>(std::min<std::size_t>(input.size(), parser_.ready()));
        place(input.first(count));
        input = input.subspan(count);
        parser_.take(count);
        if (parser_.complete()) end_reply(ErrorCode::kOk);
        break;
      }
      case FrameParser::Event::kAborted:
        end_reply(parser_.abort_status());
        break;
      case FrameParser::Event::kMalformed:
        return malformed("read replies");
    }
  }
}

// What most streams consist of: whole replies, each to the oldest request, which
// read a little into one piece. Whatever is not exactly that, malformed bytes
// included, is left to the parser.
void InitiatorStream::take_short_reads(std::span<const std::byte>& input) {
  while (tail_ != send_ && input.size() > sizeof(ReplyHeader)) {
    std::uint64_t kind = 0;
    std::uint64_t which = 0;
    std::memcpy(&kind, input.data(), sizeof kind);
    std::memcpy(&which, input.data() + sizeof kind, sizeof which);
    Slot& s = slot(tail_);
    const bool expected = kind == kReadReply && which == (std::uint64_t{s.length} << 32 | tail_) &&
                          s.op == Op::kRead && s.state == State::kOpen && s.piece_count == 1 &&
                          s.length <= kChunkBytes;
    if (!expected || input.size() - sizeof(ReplyHeader) < s.length) return;
    copy_payload(s.piece.data, input.data() + sizeof(ReplyHeader), s.length);
    input = input.subspan(sizeof(ReplyHeader) + s.length);
    complete(s, ErrorCode::kOk, 0, s.length);
    s.state = State::kRetired;
    ++tail_;
  }
}

Result<void> InitiatorStream::begin_reply() {
  const ReplyHeader& reply = parser_.reply();
  if (reply.id - tail_ >= send_ - tail_) return malformed("a reply to no request", reply.id);
  const Slot& s = slot(reply.id);
  const bool is_awaited = s.state != State::kRetired;
  if (!is_awaited || s.op != reply.operation()) return malformed("a reply to another request", reply.id);
  if (reply.has_payload() && reply.length != s.length)
    return malformed("a reply of another length", reply.length);
  if (!retire_before(reply.id)) return malformed("a reply out of order", reply.id);
  reply_slot_ = reply.id;
  placed_ = 0;
  return {};
}

// I2: everything unsignalled before an answered request has succeeded. False if
// a signalled one was passed over.
bool InitiatorStream::retire_before(std::uint32_t sequence) {
  for (std::uint32_t i = tail_; i != sequence; ++i) {
    Slot& s = slot(i);
    if (s.state == State::kRetired) continue;
    if (!has(s.flags, RequestFlags::kUnsignalled)) return false;
    if (s.state == State::kOpen) complete(s, ErrorCode::kOk, 0, 0);
    s.state = State::kRetired;
  }
  return true;
}

void InitiatorStream::place(std::span<const std::byte> bytes) {
  if (!reply_goes_to_user()) return;
  const std::span<const LocalPiece> to = pieces(reply_slot_);
  if (to.size() == 1) {
    copy_payload(to.front().data + placed_, bytes.data(), bytes.size());
    placed_ += static_cast<std::uint32_t>(bytes.size());
    return;
  }
  Gather places;
  add_range(places, to, placed_, placed_ + bytes.size());
  for (const iovec& part : places.parts()) {
    std::memcpy(part.iov_base, bytes.data(), part.iov_len);
    bytes = bytes.subspan(part.iov_len);
    placed_ += static_cast<std::uint32_t>(part.iov_len);
  }
}

void InitiatorStream::end_reply(ErrorCode status) {
  Slot& s = slot(reply_slot_);
  if (s.state == State::kOpen) {
    const std::uint32_t length = is_atomic(s.op) ? 8 : s.length;
    complete(s, status, parser_.reply().value, status == ErrorCode::kOk ? length : 0);
  }
  s.state = State::kRetired;
  drop_retired();
}

}  // namespace yonder::fabric::tcp
