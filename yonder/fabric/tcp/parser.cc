#include "yonder/fabric/tcp/internal/parser.h"

#include <algorithm>
#include <cstring>

#include "yonder/base/check.h"

namespace yonder::fabric::tcp {

const std::byte* FrameParser::collect(std::span<const std::byte>& input, std::size_t size) {
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

FrameParser::Event FrameParser::accept(std::uint32_t payload) {
  left_ = payload;
  chunked_ = is_chunked(payload);
  ready_ = chunked_ ? 0 : payload;
  return Event::kHeader;
}

FrameParser::Event FrameParser::next_header(std::span<const std::byte>& input) {
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

FrameParser::Event FrameParser::next_chunk(std::span<const std::byte>& input) {
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

FrameParser::Event FrameParser::next(std::span<const std::byte>& input) {
  if (malformed_) return Event::kMalformed;
  if (ready_ != 0) return input.empty() ? Event::kNeedMore : Event::kPayload;
  if (left_ == 0) return next_header(input);
  const Event event = next_chunk(input);
  return event == Event::kPayload && input.empty() ? Event::kNeedMore : event;
}

void FrameParser::take(std::uint32_t count) {
  YONDER_DCHECK(count <= ready_, "more payload taken than there is");
  ready_ -= count;
  left_ -= count;
}

}  // namespace yonder::fabric::tcp
