#include "yonder/segment/internal/protocol.h"

#include <array>

namespace yonder::segment::protocol {

void encode(rpc::Writer& out, const SegmentRecord& record) {
  out.put(record.id);
  out.put(record.slots.first);
  out.put(record.slots.count);
  out.put(record.bytes);
  out.put(record.owner);
  out.put(record.target);
  out.put(record.epoch);
  out.put(record.state);
}

SegmentRecord decode_record(rpc::Reader& in) {
  SegmentRecord record;
  record.id = in.get<SegmentId>();
  record.slots.first = in.get<std::uint32_t>();
  record.slots.count = in.get<std::uint32_t>();
  record.bytes = in.get<std::uint64_t>();
  record.owner = in.get<ProcessId>();
  record.target = in.get<ProcessId>();
  record.epoch = in.get<Epoch>();
  record.state = in.get_enum(SegmentState::kOwned, SegmentState::kLost);
  // What is computed from it must stay in range.
  if (record.bytes < kMinSegmentBytes || record.bytes > kMaxSegmentBytes ||
      record.slots.count != (record.bytes + kSlotBytes - 1) / kSlotBytes) {
    in.give_up();
  }
  return record;
}

void Records::encode(rpc::Writer& out) const {
  out.count(records.size(), kMaxRecords);
  for (const SegmentRecord& record : records) protocol::encode(out, record);
}

void Records::decode(rpc::Reader& in) {
  const std::size_t count = in.count(kMaxRecords, kRecordBytes);
  for (std::size_t i = 0; i < count && in.ok(); ++i) records.push_back(decode_record(in));
}

void MoveMessage::encode(rpc::Writer& out) const {
  out.put(move.segment);
  out.put(move.from);
  out.put(move.to);
  out.put(move.epoch);
}

void MoveMessage::decode(rpc::Reader& in) {
  move.segment = in.get<SegmentId>();
  move.from = in.get<ProcessId>();
  move.to = in.get<ProcessId>();
  move.epoch = in.get<Epoch>();
}

void Ranges::encode(rpc::Writer& out) const {
  out.count(ranges.size(), kMaxRanges);
  for (const ByteRange& range : ranges) {
    out.put(range.offset);
    out.put(range.length);
  }
}

void Ranges::decode(rpc::Reader& in) {
  const std::size_t count = in.count(kMaxRanges, 16);
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < count && in.ok(); ++i) {
    const auto offset = in.get<std::uint64_t>();
    const auto length = in.get<std::uint64_t>();
    if (length == 0 || offset > kMaxSegmentBytes || length > kMaxSegmentBytes - offset || offset < end)
      return in.give_up();
    ranges.push_back({offset, length});
    end = offset + length;
  }
}

void Place::encode(rpc::Writer& out) const {
  out.string(address, Directory::kMaxAddress);
  std::array<std::byte, fabric::RegionToken::kEncodedBytes> token;
  region.encode(token);
  out.fixed(token);
}

void Place::decode(rpc::Reader& in) {
  address = in.string(Directory::kMaxAddress);
  const Result<fabric::RegionToken> token =
      fabric::RegionToken::decode(in.fixed(fabric::RegionToken::kEncodedBytes));
  if (!token) return in.give_up();
  region = *token;
}

void OfferRequest::encode(rpc::Writer& out) const {
  protocol::encode(out, record);
  source.encode(out);
  out.put(release_early);
  data.encode(out);
  out.put(keeper);
  if (keeper != ProcessId(0)) copy.encode(out);
}

void OfferRequest::decode(rpc::Reader& in) {
  record = decode_record(in);
  source.decode(in);
  release_early = in.get<bool>();
  data.decode(in);
  keeper = in.get<ProcessId>();
  if (keeper != ProcessId(0)) copy.decode(in);
  if (source.region.length < record.bytes) return in.give_up();
  if (keeper != ProcessId(0) && copy.region.length < record.bytes) return in.give_up();
}

}  // namespace yonder::segment::protocol
