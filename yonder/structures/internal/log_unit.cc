#include "yonder/structures/internal/log_unit.h"

#include <xxhash.h>

#include <cstring>

#include "yonder/base/check.h"

namespace yonder::structures::internal {

namespace {

// A chain, each part with the sum of those before as its seed: the head without its
// checksum, the lengths, every record. Parts need not lie together, and nothing is kept
// between them but a word.
std::uint64_t sum(std::span<const std::byte> part, std::uint64_t before) {
  return XXH3_64bits_withSeed(part.data(), part.size(), before);
}
std::uint64_t sum(const UnitHead& head) {
  return sum(std::as_bytes(std::span(&head, 1)).first(offsetof(UnitHead, checksum)), 0);
}

}  // namespace

UnitWriter::UnitWriter(std::uint64_t slot, std::uint32_t bytes, RecordSpans records,
                       std::span<std::byte> buffer)
    : slot_(slot), bytes_(bytes), records_(records), buffer_(buffer) {
  YONDER_CHECK(sizeof(UnitHead) + bytes_ <= buffer_.size(), "a unit fits its buffer");
}

std::size_t UnitWriter::write_front() {
  UnitHead head{.slot = slot_, .bytes = bytes_, .records = static_cast<std::uint32_t>(records_.size())};
  std::size_t at = sizeof head;
  for (const auto& record : records_) {
    const auto length = static_cast<std::uint32_t>(record.size());
    std::memcpy(buffer_.data() + at, &length, sizeof length);
    at += sizeof length;
  }
  head.checksum = sum(buffer_.subspan(sizeof head, at - sizeof head), sum(head));
  for (const auto& record : records_) head.checksum = sum(record, head.checksum);
  std::memcpy(buffer_.data(), &head, sizeof head);
  return at;
}

std::span<std::byte> UnitWriter::pack() {
  std::size_t at = write_front();
  for (const auto& record : records_) {
    if (!record.empty()) std::memcpy(buffer_.data() + at, record.data(), record.size());
    at += record.size();
  }
  return buffer_.first(at);
}

std::size_t UnitWriter::gather(std::span<fabric::LocalPiece> pieces, fabric::LocalKey buffer_key,
                               fabric::LocalKey record_key) {
  YONDER_CHECK(records_.size() < pieces.size(), "a piece for each record and one for the head");
  std::size_t count = 0;
  pieces[count++] = fabric::LocalPiece::of(buffer_.first(write_front()), buffer_key);
  for (const auto& record : records_) {
    if (!record.empty()) pieces[count++] = fabric::LocalPiece::of(record, record_key);
  }
  return count;
}

Result<void> parse_unit(std::uint64_t slot, std::span<const std::byte> unit,
                        std::vector<std::span<const std::byte>>& records) {
  records.clear();
  UnitHead head;
  if (unit.size() < sizeof head) return fail(ErrorCode::kCorrupt, "log: a unit without a head", slot);
  std::memcpy(&head, unit.data(), sizeof head);
  const std::span<const std::byte> body = unit.subspan(sizeof head);
  // Every number is bounded before it is used: they may be any bytes.
  if (head.slot != slot || head.bytes > body.size() || head.records > head.bytes / 4) {
    return fail(ErrorCode::kCorrupt, "log: a unit's head", slot);
  }
  std::size_t at = std::size_t{4} * head.records;
  std::uint64_t checksum = sum(body.first(at), sum(head));
  for (std::uint32_t i = 0; i < head.records; ++i) {
    std::uint32_t length = 0;
    std::memcpy(&length, body.data() + std::size_t{4} * i, sizeof length);
    if (length > head.bytes - at) return fail(ErrorCode::kCorrupt, "log: a record's length", slot);
    records.push_back(body.subspan(at, length));
    checksum = sum(records.back(), checksum);
    at += length;
  }
  if (checksum != head.checksum || at != head.bytes) {
    return fail(ErrorCode::kCorrupt, "log: a unit's checksum", slot);
  }
  return {};
}

}  // namespace yonder::structures::internal
