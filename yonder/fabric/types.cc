#include "yonder/fabric/types.h"

#include <algorithm>
#include <cstring>

namespace yonder::fabric {

static_assert(sizeof(Completion) == 40, "completions are copied in batches: keep them small");

void RegionToken::encode(std::span<std::byte, kEncodedBytes> out) const {
  std::ranges::fill(out, std::byte{0});
  std::memcpy(out.data(), &key.value, 8);
  std::memcpy(out.data() + 8, &length, 8);
  out[16] = static_cast<std::byte>(rights);
  out[17] = static_cast<std::byte>(atomics);
}

Result<RegionToken> RegionToken::decode(std::span<const std::byte> bytes) {
  if (bytes.size() < kEncodedBytes) {
    return fail(ErrorCode::kCorrupt, "decode region token", static_cast<std::int64_t>(bytes.size()));
  }
  const auto rights = std::to_integer<unsigned>(bytes[16]);
  const auto atomics = std::to_integer<unsigned>(bytes[17]);
  const bool rest_is_zero = std::ranges::all_of(bytes.subspan(18, kEncodedBytes - 18),
                                                [](std::byte b) { return b == std::byte{0}; });
  if (rights > static_cast<unsigned>(Rights::kAll) || atomics > 1 || !rest_is_zero) {
    return fail(ErrorCode::kCorrupt, "decode region token");
  }
  RegionToken token;
  std::memcpy(&token.key.value, bytes.data(), 8);
  std::memcpy(&token.length, bytes.data() + 8, 8);
  token.rights = static_cast<Rights>(rights);
  token.atomics = static_cast<AtomicsBy>(atomics);
  return token;
}

std::uint64_t local_bytes(const WorkRequest& request) {
  std::uint64_t sum = 0;
  for (const LocalPiece& piece : request.local) sum += piece.length;
  return sum;
}

ErrorCode check_request(const WorkRequest& request, const Limits& limits) {
  if (request.op < Op::kRead || request.op > Op::kFetchAdd) return ErrorCode::kInvalidArgument;
  if (is_atomic(request.op)) {
    if (!request.local.empty()) return ErrorCode::kInvalidArgument;
    return request.remote.offset % 8 == 0 ? ErrorCode::kOk : ErrorCode::kMisaligned;
  }
  if (request.local.size() > limits.max_pieces) return ErrorCode::kInvalidArgument;
  const std::uint64_t bytes = local_bytes(request);
  if (has(request.flags, RequestFlags::kInline) && (request.op == Op::kRead || bytes > limits.max_inline)) {
    return ErrorCode::kInvalidArgument;
  }
  if (request.op == Op::kSend)
    return bytes <= limits.max_message ? ErrorCode::kOk : ErrorCode::kMessageTooLong;
  return bytes != 0 && bytes <= limits.max_transfer ? ErrorCode::kOk : ErrorCode::kLengthInvalid;
}

ErrorCode check_access(Op op, std::uint64_t offset, std::uint64_t length, std::uint64_t region_length,
                       Rights rights) {
  if (!allows(rights, needed_right(op))) return ErrorCode::kAccessDenied;
  if (is_atomic(op) && offset % 8 != 0) return ErrorCode::kMisaligned;
  // Written so that no sum can wrap: offset and length are a peer's numbers.
  if (length == 0) return ErrorCode::kLengthInvalid;
  if (offset > region_length || length > region_length - offset) return ErrorCode::kOutOfBounds;
  return ErrorCode::kOk;
}

}  // namespace yonder::fabric
