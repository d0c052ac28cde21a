// Random allocations and frees against a map of what must be where: no two
// allocations overlap, every byte keeps its value, and the heap's own rules hold.

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/os/mapping.h"
#include "yonder/segment/heap.h"
#include "yonder/testing/sanitizer.h"
#include "yonder/testing/seed.h"

namespace yonder::segment {
namespace {

struct Piece {
  std::byte* data;
  std::size_t bytes;
  std::byte mark;
};

std::size_t random_size(Prng& prng) {
  // Mostly small, sometimes a large part of the whole.
  const std::uint64_t limit = std::uint64_t{1} << (4 + prng.below(13));
  return prng.below(limit);
}

bool is_whole(const Piece& piece) {
  for (std::size_t i = 0; i < piece.bytes; ++i) {
    if (piece.data[i] != piece.mark) return false;
  }
  return true;
}

TEST(HeapModel, KeepsEveryByteOfEveryAllocation) {
  Prng prng(testing::test_seed());
  const os::Mapping memory = os::Mapping::anonymous({.bytes = std::size_t{1} << 20}).value();
  Heap* heap = Heap::format(memory.bytes()).value();
  std::vector<Piece> pieces;
  const int steps = testing::scaled(20'000);
  for (int step = 0; step < steps; ++step) {
    // Drifts between nearly empty and full.
    const bool grow = prng.below(100) < ((step / 2000) % 2 == 0 ? 65u : 35u);
    if (grow) {
      const std::size_t bytes = random_size(prng);
      const std::size_t alignment = std::size_t{1} << prng.below(10);
      auto* data = static_cast<std::byte*>(heap->try_allocate(bytes, alignment));
      if (data == nullptr) {
        // It never claims more than it can do.
        ASSERT_TRUE(alignment > Heap::kGranule || heap->largest_allocation() < bytes);
        continue;
      }
      ASSERT_GE(data, memory.data());
      ASSERT_LE(data + bytes, memory.data() + memory.size());
      ASSERT_GE(Heap::usable_bytes(data), bytes);
      const Piece piece{data, bytes, static_cast<std::byte>(prng.below(256))};
      std::memset(piece.data, static_cast<int>(piece.mark), piece.bytes);
      pieces.push_back(piece);
    } else if (!pieces.empty()) {
      const std::size_t i = prng.below(pieces.size());
      ASSERT_TRUE(is_whole(pieces[i]));
      heap->deallocate(pieces[i].data);
      pieces[i] = pieces.back();
      pieces.pop_back();
    }
    ASSERT_EQ(heap->allocations(), pieces.size());
    if (step % 16 == 0) {
      ASSERT_TRUE(heap->check_invariants());
    }
  }
  for (const Piece& piece : pieces) {
    ASSERT_TRUE(is_whole(piece));
    heap->deallocate(piece.data);
  }
  EXPECT_TRUE(heap->check_invariants());
  EXPECT_EQ(heap->used_bytes(), 0u);
}

}  // namespace
}  // namespace yonder::segment
