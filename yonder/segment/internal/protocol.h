#pragma once
// What directories and agents say to each other over rpc (rpc/message.h for the kinds).
//
//   to a directory                           answer
//   Join        address                      process
//   Renew, Leave  process                    –
//   AddressOf   process                      address
//   Allocate    owner, bytes                 record
//   Deallocate  owner, segment               –
//   Find        segment                      record
//   List        first id                     records
//   BeginMove, CommitMove  move              record
//   CancelMove  segment, by whom             –
//
//   from a source to a target
//   Offer       record, region, data ranges  – (kDeclined)
//   Prepare     segment                      –      the transfer comes at once; it has no effect
//   Transfer    segment, new epoch           –
//   Withdraw    segment                      –
//
//   from a source to a third process that keeps a copy
//   Keep        record, region               where the copy can be read
//   KeepCopy    segment, ranges              – (the bytes were copied)
//
//   from a target to a source
//   DataRanges  segment, from offset         where the segment has data
//   Arrived     segment, ranges              –      may be given back
//   Close       segment                      –      all has arrived, or is not wanted; also to
//                                                   the process that keeps a copy
//
// Everything that arrives is a peer's word: decode() refuses what makes no sense.
//
// Concurrency: values. Lifetime: views in a decoded request live as long as its bytes.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "yonder/fabric/types.h"
#include "yonder/rpc/message.h"
#include "yonder/segment/directory.h"

namespace yonder::segment::protocol {

inline constexpr std::size_t kMaxRecords = 64;  // per message
inline constexpr std::size_t kMaxRanges = 256;  // per message
inline constexpr std::size_t kRecordBytes = 8 + 4 + 4 + 8 + 8 + 8 + 8 + 1;

void encode(rpc::Writer& out, const SegmentRecord& record);
SegmentRecord decode_record(rpc::Reader& in);

struct Address {
  static constexpr std::size_t kMaxBytes = 4 + Directory::kMaxAddress;
  std::string text;
  void encode(rpc::Writer& out) const { out.string(text, Directory::kMaxAddress); }
  void decode(rpc::Reader& in) { text = in.string(Directory::kMaxAddress); }
};

struct ProcessMessage {
  static constexpr std::size_t kMaxBytes = 8;
  ProcessId process;
  void encode(rpc::Writer& out) const { out.put(process); }
  void decode(rpc::Reader& in) { process = in.get<ProcessId>(); }
};

struct SegmentMessage {
  static constexpr std::size_t kMaxBytes = 8;
  SegmentId segment;
  void encode(rpc::Writer& out) const { out.put(segment); }
  void decode(rpc::Reader& in) { segment = in.get<SegmentId>(); }
};

struct AllocateRequest {
  static constexpr std::size_t kMaxBytes = 16;
  ProcessId owner;
  std::uint64_t bytes = 0;
  void encode(rpc::Writer& out) const {
    out.put(owner);
    out.put(bytes);
  }
  void decode(rpc::Reader& in) {
    owner = in.get<ProcessId>();
    bytes = in.get<std::uint64_t>();
  }
};

// A segment, and who speaks.
struct SegmentBy {
  static constexpr std::size_t kMaxBytes = 16;
  SegmentId segment;
  ProcessId by;
  void encode(rpc::Writer& out) const {
    out.put(segment);
    out.put(by);
  }
  void decode(rpc::Reader& in) {
    segment = in.get<SegmentId>();
    by = in.get<ProcessId>();
  }
};

struct RecordMessage {
  static constexpr std::size_t kMaxBytes = kRecordBytes;
  SegmentRecord record;
  void encode(rpc::Writer& out) const { protocol::encode(out, record); }
  void decode(rpc::Reader& in) { record = decode_record(in); }
};

struct Records {
  static constexpr std::size_t kMaxBytes = 4 + kMaxRecords * kRecordBytes;
  std::vector<SegmentRecord> records;
  void encode(rpc::Writer& out) const;
  void decode(rpc::Reader& in);
};

struct MoveMessage {
  static constexpr std::size_t kMaxBytes = 32;
  Move move;
  void encode(rpc::Writer& out) const;
  void decode(rpc::Reader& in);
};

// Ranges in order, none empty, none touching the next.
struct Ranges {
  static constexpr std::size_t kMaxBytes = 4 + kMaxRanges * 16;
  std::vector<ByteRange> ranges;
  void encode(rpc::Writer& out) const;
  void decode(rpc::Reader& in);
};

// Where a segment's bytes can be read.
struct Place {
  static constexpr std::size_t kMaxBytes = 4 + Directory::kMaxAddress + fabric::RegionToken::kEncodedBytes;
  std::string address;
  fabric::RegionToken region;
  void encode(rpc::Writer& out) const;
  void decode(rpc::Reader& in);
};

struct OfferRequest {
  static constexpr std::size_t kMaxBytes = kRecordBytes + 2 * Place::kMaxBytes + 8 + 1 + Ranges::kMaxBytes;
  SegmentRecord record;
  Place source;
  bool release_early = false;  // the source wants to hear of what has arrived
  Ranges data;                 // roughly where there is data now: for making room
  ProcessId keeper;            // who keeps a copy, and where; 0: nobody
  Place copy;
  void encode(rpc::Writer& out) const;
  void decode(rpc::Reader& in);
};

struct KeepRequest {
  static constexpr std::size_t kMaxBytes = kRecordBytes + Place::kMaxBytes;
  SegmentRecord record;
  Place source;
  void encode(rpc::Writer& out) const {
    protocol::encode(out, record);
    source.encode(out);
  }
  void decode(rpc::Reader& in) {
    record = decode_record(in);
    source.decode(in);
    if (source.region.length < record.bytes) in.give_up();
  }
};

struct TransferRequest {
  static constexpr std::size_t kMaxBytes = 16;
  SegmentId segment;
  Epoch epoch;
  void encode(rpc::Writer& out) const {
    out.put(segment);
    out.put(epoch);
  }
  void decode(rpc::Reader& in) {
    segment = in.get<SegmentId>();
    epoch = in.get<Epoch>();
  }
};

struct DataRangesRequest {
  static constexpr std::size_t kMaxBytes = 16;
  SegmentId segment;
  std::uint64_t from = 0;
  void encode(rpc::Writer& out) const {
    out.put(segment);
    out.put(from);
  }
  void decode(rpc::Reader& in) {
    segment = in.get<SegmentId>();
    from = in.get<std::uint64_t>();
  }
};

// Ranges of a segment: that have arrived, or are to be copied.
struct SegmentRanges {
  static constexpr std::size_t kMaxBytes = 8 + Ranges::kMaxBytes;
  SegmentId segment;
  Ranges ranges;
  void encode(rpc::Writer& out) const {
    out.put(segment);
    ranges.encode(out);
  }
  void decode(rpc::Reader& in) {
    segment = in.get<SegmentId>();
    ranges.decode(in);
  }
};

struct Join : rpc::MethodOf<500, Address, ProcessMessage> {};
struct Renew : rpc::MethodOf<501, ProcessMessage, rpc::Empty> {};
struct Leave : rpc::MethodOf<502, ProcessMessage, rpc::Empty> {};
struct AddressOf : rpc::MethodOf<503, ProcessMessage, Address> {};
struct Allocate : rpc::MethodOf<504, AllocateRequest, RecordMessage> {};
struct Deallocate : rpc::MethodOf<505, SegmentBy, rpc::Empty> {};
struct Find : rpc::MethodOf<506, SegmentMessage, RecordMessage> {};
struct List : rpc::MethodOf<507, SegmentMessage, Records> {};
struct BeginMove : rpc::MethodOf<508, MoveMessage, RecordMessage> {};
struct CommitMove : rpc::MethodOf<509, MoveMessage, RecordMessage> {};
struct CancelMove : rpc::MethodOf<510, SegmentBy, rpc::Empty> {};

struct Offer : rpc::MethodOf<520, OfferRequest, rpc::Empty> {};
struct Prepare : rpc::MethodOf<521, SegmentMessage, rpc::Empty> {};
struct Transfer : rpc::MethodOf<522, TransferRequest, rpc::Empty> {};
struct Withdraw : rpc::MethodOf<523, SegmentMessage, rpc::Empty> {};
struct DataRanges : rpc::MethodOf<524, DataRangesRequest, Ranges> {};
struct Arrived : rpc::MethodOf<525, SegmentRanges, rpc::Empty> {};
struct Close : rpc::MethodOf<526, SegmentMessage, rpc::Empty> {};
struct Keep : rpc::MethodOf<527, KeepRequest, Place> {};
struct KeepCopy : rpc::MethodOf<528, SegmentRanges, rpc::Empty> {};

}  // namespace yonder::segment::protocol
