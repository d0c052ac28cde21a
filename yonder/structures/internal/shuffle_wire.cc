#include "yonder/structures/internal/shuffle_wire.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "yonder/base/fixed_layout.h"

namespace yonder::structures::internal {
namespace {

constexpr std::uint64_t kShuffleMagic = 0x53524e444e4f5931;  // "1YONDNRS" in memory order
constexpr std::uint32_t kVersion = 1;

}  // namespace

Result<void> check_shape(const InboxShape& shape) {
  if (shape.senders == 0) return fail(ErrorCode::kInvalidArgument, "shuffle: no senders");
  if (shape.senders > kMaxSenders)
    return fail(ErrorCode::kInvalidArgument, "shuffle: too many senders", shape.senders);
  if (!std::has_single_bit(shape.ring_bytes) || shape.ring_bytes < kMinRingBytes ||
      shape.ring_bytes > kMaxRingBytes)
    return fail(ErrorCode::kInvalidArgument, "shuffle: ring_bytes is no power of two from 1 KiB to 1 GiB",
                static_cast<std::int64_t>(shape.ring_bytes));
  return {};
}

void InboxGreeting::encode(std::span<std::byte, kEncodedBytes> out) const {
  std::ranges::fill(out, std::byte{0});
  put_field(out, 0, kShuffleMagic);
  put_field(out, 8, kVersion);
  put_field(out, 12, receiver);
  put_field(out, 16, shape.senders);
  put_field(out, 24, shape.ring_bytes);
  put_field(out, 32, secret);
  token.encode(out.subspan<40, fabric::RegionToken::kEncodedBytes>());
}

Result<InboxGreeting> InboxGreeting::decode(std::span<const std::byte> bytes) {
  if (bytes.size() != kEncodedBytes || get_field<std::uint64_t>(bytes, 0) != kShuffleMagic ||
      get_field<std::uint32_t>(bytes, 8) != kVersion)
    return fail(ErrorCode::kProtocolMismatch, "shuffle: no receiver of this version at the address");
  InboxGreeting greeting;
  greeting.receiver = get_field<std::uint32_t>(bytes, 12);
  greeting.shape.senders = get_field<std::uint32_t>(bytes, 16);
  greeting.shape.ring_bytes = get_field<std::uint64_t>(bytes, 24);
  greeting.secret = get_field<std::uint64_t>(bytes, 32);
  YONDER_TRY(token, fabric::RegionToken::decode(bytes.subspan(40, fabric::RegionToken::kEncodedBytes)));
  greeting.token = token;
  if (!check_shape(greeting.shape) || token.length < greeting.shape.total_bytes())
    return fail(ErrorCode::kCorrupt, "shuffle: the receiver's greeting contradicts itself");
  return greeting;
}

}  // namespace yonder::structures::internal

namespace yonder::structures {
namespace {

using internal::BatchHeader;
using internal::BatchKind;
using internal::EntryLengths;

bool is_mixed(const BatchHeader& header) {
  return header.key_bytes == internal::kMixed && header.value_bytes == internal::kMixed;
}

// Whether the fields describe a batch of that length. Counts and lengths have 32
// bits, so sums and products of two of them stay within 64.
bool agrees(const BatchHeader& header) {
  if (header.kind != BatchKind::kEntries) return header.count == 0 && header.body_bytes == 0;
  if (header.count == 0 || header.count > internal::kMaxBatchEntries) return false;
  const bool mixed = is_mixed(header);
  if (internal::batch_bytes(header.body_bytes, header.count, mixed) != header.bytes) return false;
  // Compared by division: the product could have 65 bits.
  const std::uint64_t each = std::uint64_t{header.key_bytes} + header.value_bytes;
  return mixed || (header.body_bytes % header.count == 0 && header.body_bytes / header.count == each);
}

}  // namespace

Result<BatchHeader> ShuffleBatchParser::check_header(std::span<const std::byte> bytes, std::uint64_t ticket,
                                                     std::uint64_t available) {
  BatchHeader header;
  if (bytes.size() < sizeof header || available < sizeof header)
    return fail(ErrorCode::kCorrupt, "shuffle: a batch is cut off");
  std::memcpy(&header, bytes.data(), sizeof header);
  const bool known = header.kind == BatchKind::kEntries || header.kind == BatchKind::kSkip ||
                     header.kind == BatchKind::kEndOfRound || header.kind == BatchKind::kEndOfStream;
  if (header.ticket != ticket || !known)
    return fail(ErrorCode::kCorrupt, "shuffle: the batch in the ring is not the next one");
  if (header.bytes < sizeof header || header.bytes % internal::kBatchAlignment != 0 ||
      header.bytes > available || !agrees(header))
    return fail(ErrorCode::kCorrupt, "shuffle: a batch contradicts itself");
  return header;
}

Result<ShuffleBatch> ShuffleBatchParser::parse(std::span<const std::byte> bytes, const BatchHeader& header,
                                               std::uint32_t sender) {
  ShuffleBatch batch(ShuffleBatch::Kind::kEntries);
  batch.sender_ = sender;
  batch.count_ = header.count;
  batch.bodies_ = bytes.data() + sizeof header;
  batch.uniform_ = {header.key_bytes, header.value_bytes};
  if (!is_mixed(header)) return batch;  // check_header() added these up.
  batch.directory_ = bytes.data() + internal::round_to(sizeof header + header.body_bytes, 8);
  std::uint64_t sum = 0;
  for (std::uint32_t i = 0; i < header.count; ++i) {
    const ShuffleBatch::Lengths lengths = batch.lengths(i);
    sum += std::uint64_t{lengths.key} + lengths.value;
  }
  if (sum == header.body_bytes) return batch;
  return fail(ErrorCode::kCorrupt, "shuffle: the lengths of a batch do not add up");
}

}  // namespace yonder::structures
