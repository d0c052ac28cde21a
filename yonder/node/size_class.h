#pragma once
// Size classes: which slot an object of n bytes gets, and how slots fill frames.
//
// A slot holds the 8-byte header, what the validator adds, and the payload. Slot
// sizes are all multiples of 8 up to 128 bytes and then eight per doubling, so at
// most 1/8 of a slot above 64 bytes is rounding. Each class has its own frame
// size: the fewest units of 4 KiB for which the unusable tail and all that the node
// keeps beside the frame come to at most 1/64 of the payload. Larger frames would
// cost more in rarely used classes, and at the end of every compacted one.
//
// A frame starts out as several blocks (see docs/node.md, "Blocks and frames"):
// a block is the unit that moves, and small blocks pack better than large ones.
//
// Concurrency: immutable after construction. Lifetime: a value; ~10 KiB.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/node/object_ptr.h"

namespace yonder::node {

// How one-sided readers prove that what they copied is one version of the object.
enum class Validator : std::uint8_t {
  kReread = 0,    // look at the header again after the copy; nothing stored
  kLines = 1,     // a version byte in every further cache line: NICs that read lines whole and in order
  kChecksum = 2,  // a 32-bit checksum behind the header: any network
};

inline constexpr std::uint32_t kHeaderBytes = 8;
inline constexpr std::uint32_t kChecksumBytes = 4;
inline constexpr std::uint32_t kLineBytes = 64;
inline constexpr std::uint32_t kUnitBytes = 4096;  // Of frames: ids and sizes count in it.
inline constexpr std::uint32_t kMaxFrameBytes = 2 << 20;
inline constexpr std::uint8_t kSpanClass = 255;  // Objects with frames of their own.

struct SizeClass {
  std::uint32_t slot_bytes;
  std::uint32_t frame_bytes;
  std::uint32_t slots;        // per frame
  std::uint32_t block_slots;  // of a new frame's blocks, a power of two; the last block may have fewer
  std::uint32_t block_shift;  // its logarithm
  std::uint32_t blocks;       // per new frame
};

struct SizeClassOptions {
  Validator validator = Validator::kReread;
  // Forces one frame size for all classes that fit it (0: per class). Power of two.
  std::uint32_t frame_bytes = 0;
  // One block per frame: what remapping by mmap needs.
  bool whole_frame_blocks = false;
};

class SizeClasses {
 public:
  // kInvalidArgument if frame_bytes is not 0 or a power of two in [4 KiB, 2 MiB].
  static Result<SizeClasses> create(const SizeClassOptions& options);

  // The class for `bytes` of payload; kSpanClass if none is large enough.
  // Requires 1 ≤ bytes ≤ kMaxObjectBytes.
  std::uint8_t class_for(std::uint32_t bytes) const {
    if (bytes <= kTableLimit) [[likely]]
      return by_bytes_[bytes];
    return class_for_slot(slot_bytes_for(bytes));
  }

  std::size_t count() const { return classes_.size(); }
  const SizeClass& operator[](std::size_t index) const { return classes_[index]; }
  Validator validator() const { return validator_; }

  // Slot bytes an object of `bytes` needs in the worst alignment.
  std::uint32_t slot_bytes_for(std::uint32_t bytes) const {
    if (validator_ == Validator::kReread) return kHeaderBytes + bytes;
    if (validator_ == Validator::kChecksum) return kHeaderBytes + kChecksumBytes + bytes;
    // Slots start at multiples of 8. The first line boundary inside is at most 56
    // bytes after the header's end if the slot starts a line, at once if the header
    // ends one: in the worst case every 63 further bytes need one version byte.
    return kHeaderBytes + bytes + (bytes + kLineBytes - 2) / (kLineBytes - 1);
  }
  // Bytes of whole units that a span of `bytes` of payload occupies.
  std::uint64_t span_bytes_for(std::uint32_t bytes) const;

 private:
  explicit SizeClasses(Validator validator) : validator_(validator) {}
  void add_classes(const SizeClassOptions& options);
  static std::uint8_t class_for_slot(std::uint32_t slot_bytes);

  static constexpr std::uint32_t kTableLimit = 1024;

  Validator validator_;
  std::vector<SizeClass> classes_;
  std::array<std::uint8_t, kTableLimit + 1> by_bytes_{};  // Of the small, the answers.
};

}  // namespace yonder::node
