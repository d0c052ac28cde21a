#include "yonder/fabric/tcp/internal/wire.h"

namespace yonder::fabric::tcp {
namespace {

bool is_transfer(std::uint32_t length) { return length != 0 && length <= kMaxTransferBytes; }

}  // namespace

bool RequestHeader::is_valid() const {
  if (magic != kFrameMagic || version != kFrameVersion || zero != 0) return false;
  if ((flags & ~kWireUnsignalled) != 0) return false;
  switch (operation()) {
    case Op::kRead:
    case Op::kWrite:
    case Op::kWriteImm:
      return is_transfer(length);
    case Op::kSend:
      return length <= kMaxTransferBytes;
    case Op::kCompareSwap:
    case Op::kFetchAdd:
      return length == 0;
    default:
      return false;
  }
}

bool RequestHeader::has_payload() const { return operation() != Op::kRead && length != 0; }

bool ReplyHeader::is_valid() const {
  if (magic != kFrameMagic || version != kFrameVersion || zero != 0 || (op & kReplyBit) == 0) return false;
  if (operation() < Op::kRead || operation() > Op::kFetchAdd) return false;
  // Only a successful read brings bytes, and it always does.
  if (status == 0 && operation() == Op::kRead) return is_transfer(length);
  return length == 0;
}

bool ChunkHeader::is_valid(std::uint32_t left) const {
  if (magic != kFrameMagic) return false;
  if (status != 0) return length == 0;
  return length != 0 && length <= kChunkBytes && length <= left;
}

}  // namespace yonder::fabric::tcp
