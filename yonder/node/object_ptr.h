#pragma once
// ObjectPtr: the 128-bit name of a remote object.
//
// A program can store it, copy it, compare it and send it. It names the object
// by its identity (node and its life, home block, id), which compaction never changes, and
// carries a hint where the object was last seen (slot), which may grow stale: a
// stale hint costs a correction, never a wrong object, because every object's
// header repeats its identity.
//
//   low:   bit  0            26           42          60      64
//              | home block | object id  | slot hint | zero  |
//   high:  bit  0            27           35          51      64
//              | size       | size class | node      | life  |
//
// A node whose objects were lost and that begins again with the same number is another
// one: it has another *life*, and the tag of it tells pointers that somebody stored in
// the first one from its own. (Two lives have the same tag with a chance of 1 in 8,191;
// then the id decides, as with a pointer to a freed object.)
//
// Every field is a peer's word when it arrives: decode with is_well_formed() and
// check against the node's tables before use.
//
// Concurrency: values.

#include <compare>
#include <cstdint>

#include "yonder/base/id.h"

namespace yonder::node {

struct BlockIdTag;
using BlockId = StrongId<BlockIdTag, std::uint32_t>;
struct ObjectIdTag;
using ObjectId = StrongId<ObjectIdTag, std::uint16_t>;  // Never 0 for a live object.
struct NodeIdTag;
using NodeId = StrongId<NodeIdTag, std::uint16_t>;

inline constexpr unsigned kBlockIdBits = 26;
inline constexpr unsigned kObjectIdBits = 16;
inline constexpr unsigned kSlotBits = 18;
inline constexpr unsigned kSizeBits = 27;
inline constexpr unsigned kClassBits = 8;
inline constexpr unsigned kNodeBits = 16;
inline constexpr unsigned kLifeBits = 13;
inline constexpr std::uint32_t kMaxObjectBytes = std::uint32_t{64} << 20;
static_assert(kBlockIdBits + kObjectIdBits + kSlotBits <= 64);
static_assert(kSizeBits + kClassBits + kNodeBits + kLifeBits == 64);
static_assert(kMaxObjectBytes < (std::uint64_t{1} << kSizeBits));

// What a pointer knows of the life of its node. Never 0.
struct LifeTagTag;
using LifeTag = StrongId<LifeTagTag, std::uint16_t>;
constexpr LifeTag life_tag(std::uint64_t life) {
  constexpr std::uint64_t kTags = (std::uint64_t{1} << kLifeBits) - 1;
  // The lowest bit of a life is always set.
  return LifeTag(static_cast<std::uint16_t>(1 + (life >> 1) % kTags));
}

class ObjectPtr {
 public:
  struct Fields {
    BlockId home;
    ObjectId id;
    std::uint32_t slot = 0;
    std::uint32_t size = 0;  // Bytes the program asked for.
    std::uint8_t size_class = 0;
    NodeId node;
    LifeTag life;
  };

  constexpr ObjectPtr() = default;  // Null.
  constexpr explicit ObjectPtr(const Fields& f)
      : low_(f.home.value() | std::uint64_t{f.id.value()} << kBlockIdBits |
             std::uint64_t{f.slot} << (kBlockIdBits + kObjectIdBits)),
        high_(f.size | std::uint64_t{f.size_class} << kSizeBits |
              std::uint64_t{f.node.value()} << (kSizeBits + kClassBits) |
              std::uint64_t{f.life.value()} << (kSizeBits + kClassBits + kNodeBits)) {}
  // From the two words of a message or a file.
  static constexpr ObjectPtr from_words(std::uint64_t low, std::uint64_t high) {
    ObjectPtr pointer;
    pointer.low_ = low;
    pointer.high_ = high;
    return pointer;
  }

  constexpr std::uint64_t low() const { return low_; }
  constexpr std::uint64_t high() const { return high_; }
  constexpr explicit operator bool() const { return low_ != 0; }

  constexpr BlockId home() const { return BlockId(static_cast<std::uint32_t>(low_ & mask(kBlockIdBits))); }
  constexpr ObjectId id() const { return ObjectId(static_cast<std::uint16_t>(low_ >> kBlockIdBits)); }
  constexpr std::uint32_t slot() const {
    return static_cast<std::uint32_t>(low_ >> (kBlockIdBits + kObjectIdBits) & mask(kSlotBits));
  }
  constexpr std::uint32_t size() const { return static_cast<std::uint32_t>(high_ & mask(kSizeBits)); }
  constexpr std::uint8_t size_class() const {
    return static_cast<std::uint8_t>(high_ >> kSizeBits & mask(kClassBits));
  }
  constexpr NodeId node() const {
    return NodeId(static_cast<std::uint16_t>(high_ >> (kSizeBits + kClassBits)));
  }
  constexpr LifeTag life() const {
    return LifeTag(static_cast<std::uint16_t>(high_ >> (kSizeBits + kClassBits + kNodeBits)));
  }

  // The same object with another hint.
  constexpr ObjectPtr with_slot(std::uint32_t slot) const {
    constexpr unsigned kShift = kBlockIdBits + kObjectIdBits;
    return from_words((low_ & ~(mask(kSlotBits) << kShift)) | std::uint64_t{slot} << kShift, high_);
  }

  // Reserved bits are zero, the id is not, the size is in range.
  constexpr bool is_well_formed() const {
    return low_ >> (kBlockIdBits + kObjectIdBits + kSlotBits) == 0 && id().value() != 0 && size() != 0 &&
           size() <= kMaxObjectBytes;
  }

  // The node is this one, in this life, and the reserved bits are zero: in two comparisons.
  constexpr bool is_of(NodeId node_id, LifeTag tag) const {
    return high_ >> (kSizeBits + kClassBits) == (node_id.value() | std::uint64_t{tag.value()} << kNodeBits) &&
           low_ >> (kBlockIdBits + kObjectIdBits + kSlotBits) == 0;
  }
  // Whether both name the same object: hints do not count.
  friend constexpr bool same_object(ObjectPtr a, ObjectPtr b) {
    return a.with_slot(0).low_ == b.with_slot(0).low_ && a.node() == b.node() && a.life() == b.life();
  }
  friend constexpr bool operator==(ObjectPtr, ObjectPtr) = default;

 private:
  static constexpr std::uint64_t mask(unsigned bits) { return (std::uint64_t{1} << bits) - 1; }

  std::uint64_t low_ = 0;
  std::uint64_t high_ = 0;
};
static_assert(sizeof(ObjectPtr) == 16);

}  // namespace yonder::node
