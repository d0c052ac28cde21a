#pragma once
// The names of segments and of the processes they move between. A directory hands
// both out and never the same one twice.
//
// Concurrency: values.

#include <cstddef>
#include <cstdint>

#include "yonder/base/id.h"

namespace yonder::segment {

struct SegmentIdTag;
using SegmentId = StrongId<SegmentIdTag, std::uint64_t>;  // 0: none

struct ProcessIdTag;
using ProcessId = StrongId<ProcessIdTag, std::uint64_t>;  // 0: none

// Address space is handed out in slots of 1 GiB: aligned to it, a range of any length can
// be taken away from its process in constant time (os::Mapping::move_out). It costs
// address space only.
inline constexpr std::size_t kSlotBytes = std::size_t{1} << 30;
inline constexpr std::size_t kMinSegmentBytes = std::size_t{64} << 10;
inline constexpr std::size_t kMaxSegmentBytes = std::size_t{64} << 30;

struct SlotRange {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  friend constexpr bool operator==(const SlotRange&, const SlotRange&) = default;
};

// Bytes of a segment, from its start.
struct ByteRange {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  friend constexpr bool operator==(const ByteRange&, const ByteRange&) = default;
};

}  // namespace yonder::segment
