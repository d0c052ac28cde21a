#pragma once
// What a memory node answers over rpc, and how (rpc/message.h for the two kinds).
//
//   method      request                         answer
//   Describe    first superblock wanted         what a one-sided reader must know
//   Alloc       bytes                           pointer
//   Free        pointer                         –
//   Find        pointer                         pointer with the slot of now
//   Release     pointer                         pointer to use from now on
//   Read        pointer, bytes                  place, then the bytes          (raw)
//   Write       pointer, condition, bytes       place
//   Batch       items of the above              an answer for each             (raw)
//   Stage       bytes to come                   ticket
//   StageRead   pointer, bytes                  ticket, place
//   Put         ticket, offset, bytes           –
//   Get         ticket, offset, length          the bytes                      (raw)
//   Commit      ticket, pointer, condition      place
//   Drop        ticket                          –
//   MakeExtent  name, bytes                     token of the extent's region
//   OpenExtent  name                            token of the extent's region
//   DropExtent  name                            –
//   CallFunction (offload_protocol.h)
//
// Objects that do not fit a message are written in three steps (Stage, Put …,
// Commit) and read in three (StageRead, Get …, Drop): the node keeps the bytes in
// memory of its own in between, so the object itself is written or read at one
// moment, like any other. A ticket belongs to its connection.
//
// A *place* is where the object was found (its slot, for the caller's pointer) and
// the version that was read or written.
//
// Batch, request and answer alike: items one after the other, each an ItemHead and
// `bytes` bytes, which are what the method's own request or answer would be. An
// item that fails answers its error and no bytes; the others are executed.
//
// Everything that arrives is a peer's word: pointers are checked by the heap,
// lengths by the codec, tickets by their owner.
//
// Concurrency: values. Lifetime: views in a decoded request live as long as the
// bytes it was decoded from.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "yonder/base/time.h"
#include "yonder/fabric/types.h"
#include "yonder/node/extents.h"
#include "yonder/node/object_ptr.h"
#include "yonder/node/size_class.h"
#include "yonder/rpc/message.h"

namespace yonder::node::protocol {

// Data of one message is at most this, whatever the server's bounds.
inline constexpr std::size_t kMaxDataBytes = 1 << 20;
inline constexpr std::size_t kMaxBatchItems = 256;
inline constexpr std::size_t kSuperblocksPerAnswer = 64;

struct PointerMessage {
  static constexpr bool kPlain = true;
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  PointerMessage() = default;
  explicit PointerMessage(ObjectPtr object) : low(object.low()), high(object.high()) {}
  ObjectPtr object() const { return ObjectPtr::from_words(low, high); }
};

// ---------------------------------------------------------------- describe

struct DescribeRequest {
  static constexpr bool kPlain = true;
  std::uint64_t first_superblock = 0;
};

struct ClassShape {
  std::uint32_t slot_bytes = 0;
  std::uint32_t frame_bytes = 0;
  std::uint32_t slots = 0;
  std::uint32_t block_shift = 0;  // a new frame's block g has the slots from g << block_shift on
};

// Where a reader finds blocks by their ids alone, if the node remaps them
// (internal/nic_views.h): in one region, id × stride from its start, or each in its own,
// whose key is word `id` of the region named here.
enum class ViewKind : std::uint8_t { kNone = 0, kArena = 1, kKeys = 2 };
struct Views {
  ViewKind kind = ViewKind::kNone;
  std::uint64_t stride = 0;    // Bytes of a block, at most.
  fabric::RegionToken region;  // The views, or the table of their keys.
};

// The arithmetic of docs/node.md, "What a one-sided reader must do". Superblock i
// holds the frames from i × superblock_bytes / 4096 on.
struct NodeDescription {
  static constexpr std::size_t kMaxClasses = 255;
  static constexpr std::size_t kMaxBytes = 52 + 2 * fabric::RegionToken::kEncodedBytes + 4 +
                                           16 * kMaxClasses + 8 +
                                           fabric::RegionToken::kEncodedBytes * kSuperblocksPerAnswer;

  NodeId node;
  LifeTag life;  // In every pointer.
  Validator validator = Validator::kReread;
  bool natural_ids = true;             // BlockTable::guess() is worth trying
  std::uint32_t max_data = 0;          // bytes of objects in one request or answer
  std::uint64_t superblock_bytes = 0;  // of each
  fabric::RegionToken block_table;
  Views views;
  std::vector<ClassShape> classes;
  std::uint32_t superblock_count = 0;            // there are so many now
  std::vector<fabric::RegionToken> superblocks;  // from the first wanted, as many as fit

  void encode(rpc::Writer& out) const;
  // Refuses descriptions that make no sense (a slot outside its frame, a frame
  // outside its superblock): what a reader computes from it stays in range.
  void decode(rpc::Reader& in);
};

// ---------------------------------------------------------------- objects

struct AllocRequest {
  static constexpr bool kPlain = true;
  std::uint64_t bytes = 0;
};

struct ReadRequest {
  static constexpr bool kPlain = true;
  PointerMessage pointer;
  std::uint64_t bytes = 0;
};

// First bytes of a Read's answer, and the whole of a Write's.
struct PlaceAnswer {
  static constexpr bool kPlain = true;
  std::uint32_t slot = 0;
  std::uint32_t version = 0;
};

struct WriteRequest {
  static constexpr std::size_t kHeadBytes = 16 + 1 + 4 + 4;
  static constexpr std::size_t kMaxBytes = kHeadBytes + kMaxDataBytes;
  ObjectPtr object;
  bool conditional = false;
  std::uint32_t expected = 0;  // Version, if conditional.
  std::span<const std::byte> data;

  void encode(rpc::Writer& out) const;
  void decode(rpc::Reader& in);
};

enum class Item : std::uint32_t { kAlloc = 1, kFree = 2, kRead = 3, kWrite = 4, kRelease = 5, kFind = 6 };

// Request: which method; answer: an ErrorCode, 0 for success.
struct ItemHead {
  static constexpr bool kPlain = true;
  std::uint32_t kind = 0;
  std::uint32_t bytes = 0;
};

// ---------------------------------------------------------------- large objects

struct StageRequest {
  static constexpr bool kPlain = true;
  std::uint64_t bytes = 0;
};

struct TicketMessage {
  static constexpr bool kPlain = true;
  std::uint64_t ticket = 0;
};

struct StageReadAnswer {
  static constexpr bool kPlain = true;
  std::uint64_t ticket = 0;
  PlaceAnswer place;
};

struct PutRequest {
  static constexpr std::size_t kHeadBytes = 8 + 8 + 4;
  static constexpr std::size_t kMaxBytes = kHeadBytes + kMaxDataBytes;
  std::uint64_t ticket = 0;
  std::uint64_t offset = 0;
  std::span<const std::byte> data;

  void encode(rpc::Writer& out) const;
  void decode(rpc::Reader& in);
};

struct GetRequest {
  static constexpr bool kPlain = true;
  std::uint64_t ticket = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

struct CommitRequest {
  static constexpr bool kPlain = true;
  std::uint64_t ticket = 0;
  PointerMessage pointer;
  std::uint32_t conditional = 0;
  std::uint32_t expected = 0;
};

// ---------------------------------------------------------------- extents

struct ExtentRequest {
  static constexpr std::size_t kMaxBytes = 4 + kMaxExtentName + 8;
  std::string_view name;
  std::uint64_t bytes = 0;  // MakeExtent.

  void encode(rpc::Writer& out) const;
  void decode(rpc::Reader& in);
};

struct TokenAnswer {
  static constexpr std::size_t kMaxBytes = fabric::RegionToken::kEncodedBytes;
  fabric::RegionToken token;

  void encode(rpc::Writer& out) const;
  void decode(rpc::Reader& in);
};

// ---------------------------------------------------------------- methods

using rpc::MethodOf;

struct Describe : MethodOf<32, DescribeRequest, NodeDescription> {};
struct Alloc : MethodOf<33, AllocRequest, PointerMessage> {};
struct Free : MethodOf<34, PointerMessage, rpc::Empty> {};
struct Find : MethodOf<35, PointerMessage, PointerMessage> {};
struct Release : MethodOf<36, PointerMessage, PointerMessage> {};
struct Write : MethodOf<37, WriteRequest, PlaceAnswer> {};
struct Stage : MethodOf<38, StageRequest, TicketMessage> {};
struct StageRead : MethodOf<39, ReadRequest, StageReadAnswer> {};
struct Put : MethodOf<40, PutRequest, rpc::Empty> {};
struct Commit : MethodOf<41, CommitRequest, PlaceAnswer> {};
struct Drop : MethodOf<42, TicketMessage, rpc::Empty> {};
// Their answers end in bytes that the caller has a place for.
inline constexpr rpc::MethodId kRead{43};
inline constexpr rpc::MethodId kGet{44};
inline constexpr rpc::MethodId kBatch{45};
struct MakeExtent : MethodOf<46, ExtentRequest, TokenAnswer> {};
struct OpenExtent : MethodOf<47, ExtentRequest, TokenAnswer> {};
struct DropExtent : MethodOf<48, ExtentRequest, rpc::Empty> {};

// How a method is called in metrics; empty if it is none of these.
std::string_view method_name(rpc::MethodId method);

}  // namespace yonder::node::protocol
