#pragma once
// FrameParser: turns the bytes of a stream into headers and payload, whatever
// the pieces in which they arrive.
//
// It holds no socket and no payload: the caller owns the bytes, asks next() what
// they are, and says with take() how much payload it used, from its buffer or
// straight from the socket. So it can be tested at every split point and fuzzed,
// and payloads are copied only by those who want a copy.
//
//   for (;;) switch (parser.next(input)) {
//     case kNeedMore:  return;                        // input is used up
//     case kHeader:    begin(parser.request()); …     // payload follows if !complete()
//     case kPayload:   n = use(input, parser.ready()); parser.take(n); input = input.subspan(n); …
//     case kAborted:   give_up(parser.abort_status());
//     case kMalformed: close();                       // for ever
//   }
//
//   state      | bytes            | next state
//   -----------+------------------+---------------------------------------
//   header     | incomplete       | header            kNeedMore
//              | valid, no payload| header            kHeader, complete()
//              | valid, ≤ a chunk | payload           kHeader
//              | valid, longer    | chunk header      kHeader
//              | anything else    | malformed         kMalformed
//   chunk hdr  | valid            | payload           kPayload
//              | status ≠ 0       | header            kAborted
//              | anything else    | malformed         kMalformed
//   payload    | n < ready()      | payload           kPayload
//              | the last of it   | chunk hdr, header
//
// Invariants: I1 every length is checked before it is used; I2 nothing is
// allocated; I3 ready() never exceeds what the frame's header announced.
//
// Concurrency: one thread. Lifetime: input is borrowed during next().

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "yonder/base/check.h"
#include "yonder/base/error.h"
#include "yonder/fabric/tcp/internal/wire.h"

namespace yonder::fabric::tcp {

class FrameParser {
 public:
  // A target's stream carries requests only, an initiator's replies only.
  enum class Kind : std::uint8_t { kRequests, kReplies };
  enum class Event : std::uint8_t { kNeedMore, kHeader, kPayload, kAborted, kMalformed };

  explicit FrameParser(Kind kind) : kind_(kind) {}

  // Looks at the front of `input` and takes header bytes off it, never payload.
  Event next(std::span<const std::byte>& input);

  // The last header that next() announced.
  const RequestHeader& request() const { return request_; }
  const ReplyHeader& reply() const { return reply_; }
  // Payload bytes that come next without a header in between.
  std::uint32_t ready() const { return ready_; }
  // Payload bytes of the frame that have not been taken.
  std::uint32_t left() const { return left_; }
  // Uses `count` <= ready() payload bytes.
  void take(std::uint32_t count);
  bool complete() const { return left_ == 0; }
  // Why the rest of the payload does not come, after kAborted.
  ErrorCode abort_status() const { return abort_status_; }
  // True between the first byte and the last one of a frame.
  bool mid_frame() const { return filled_ != 0 || left_ != 0; }
  // Forgets everything: for a new stream.
  void reset() { *this = FrameParser(kind_); }

 private:
  Event next_header(std::span<const std::byte>& input);
  Event next_chunk(std::span<const std::byte>& input);
  std::size_t header_bytes() const {
    return kind_ == Kind::kRequests ? sizeof(RequestHeader) : sizeof(ReplyHeader);
  }
  // Collects `size` bytes over several calls; null while some are missing.
  const std::byte* collect(std::span<const std::byte>& input, std::size_t size);
  Event accept(std::uint32_t payload);

  Kind kind_;
  bool malformed_ = false;
  bool chunked_ = false;
  ErrorCode abort_status_ = ErrorCode::kOk;
  std::uint32_t left_ = 0;
  std::uint32_t ready_ = 0;
  std::uint32_t filled_ = 0;  // Bytes of an incomplete header in carry_.
  RequestHeader request_;
  ReplyHeader reply_;
  std::array<std::byte, sizeof(RequestHeader)> carry_;
};

// Inline: once or twice per frame, on both sides.

inline const std::byte* FrameParser::collect(std::span<const std::byte>& input, std::size_t size) {
  if (filled_ == 0 && input.size() >= size) {
    const std::byte* whole = input.data();
    input = input.subspan(size);
    return whole;
  }
  const std::size_t count = std::min(size - filled_, input.size());
  std::copy_n(input.begin(), count, carry_.begin() + filled_);
  input = input.subspan(count);
  filled_ += static_cast<std::uint32_t>(count);
  if (filled_ < size) return nullptr;
  filled_ = 0;
  return carry_.data();
}

inline FrameParser::Event FrameParser::accept(std::uint32_t payload) {
  left_ = payload;
  chunked_ = is_chunked(payload);
  ready_ = chunked_ ? 0 : payload;
  return Event::kHeader;
}

inline FrameParser::Event FrameParser::next_header(std::span<const std::byte>& input) {
  const std::byte* bytes = collect(input, header_bytes());
  if (bytes == nullptr) return Event::kNeedMore;
  if (kind_ == Kind::kRequests) {
    std::memcpy(&request_, bytes, sizeof request_);
    if (request_.is_valid()) return accept(request_.has_payload() ? request_.length : 0);
  } else {
    std::memcpy(&reply_, bytes, sizeof reply_);
    if (reply_.is_valid()) return accept(reply_.length);
  }
  malformed_ = true;
  return Event::kMalformed;
}

inline FrameParser::Event FrameParser::next_chunk(std::span<const std::byte>& input) {
  const std::byte* bytes = collect(input, sizeof(ChunkHeader));
  if (bytes == nullptr) return Event::kNeedMore;
  ChunkHeader header;
  std::memcpy(&header, bytes, sizeof header);
  if (!header.is_valid(left_)) {
    malformed_ = true;
    return Event::kMalformed;
  }
  if (header.status != 0) {
    left_ = 0;
    abort_status_ = static_cast<ErrorCode>(header.status);
    return Event::kAborted;
  }
  ready_ = header.length;
  return Event::kPayload;
}

inline FrameParser::Event FrameParser::next(std::span<const std::byte>& input) {
  if (malformed_) return Event::kMalformed;
  if (ready_ != 0) return input.empty() ? Event::kNeedMore : Event::kPayload;
  if (left_ == 0) return next_header(input);
  const Event event = next_chunk(input);
  return event == Event::kPayload && input.empty() ? Event::kNeedMore : event;
}

inline void FrameParser::take(std::uint32_t count) {
  YONDER_DCHECK(count <= ready_, "more payload taken than there is");
  ready_ -= count;
  left_ -= count;
}

}  // namespace yonder::fabric::tcp
