#pragma once
// What other compaction strategies would make of the same memory.
//
// The honest comparison for our compactor: the allocator of the CoRM paper
// (blocks of one size, each of one size class and one thread, §2.1) is replayed
// over a sequence of allocations and frees, and at the end the blocks are
// compacted once by the rules of each strategy:
//
//   none     nothing is merged
//   ideal    as many blocks as the live objects of a class fill: the least any
//            compactor that keeps classes apart can reach
//   mesh     two blocks merge if no slot is used in both (Mesh, PLDI 2019)
//   corm-n   two blocks merge if no n-bit object id is used in both and the
//            objects fit; classes with more than 2^n slots are left alone
//   hybrid-n corm-n, and mesh for the classes it leaves alone
//
// Like the authors' greedy: the emptiest block looks for a partner from the
// fullest that still fits downwards; the first without conflict takes it. Which
// slots and ids the live objects of a block have is uniformly random, as the
// authors hand them out (slots shuffled, ids drawn without repetition), so only
// occupancies are replayed and the sets are drawn at the end.
//
// Concurrency: one thread. Lifetime: values.

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "yonder/base/prng.h"

namespace yonder::bench {

enum class Strategy : std::uint8_t { kNone, kIdeal, kMesh, kCorm, kHybrid };

struct StrategyChoice {
  Strategy strategy;
  unsigned id_bits = 16;  // of kCorm and kHybrid
};

struct PaperAllocatorOptions {
  std::uint32_t block_bytes = 1 << 20;
  std::uint32_t threads = 1;
  std::uint64_t seed = 1;
  // Slot sizes, ascending. Larger objects get pages of their own.
  std::vector<std::uint32_t> class_sizes;
  // Block sizes of the classes, if they differ; empty: block_bytes for all.
  std::vector<std::uint32_t> class_blocks;
  std::uint32_t header_bytes = 0;  // Of every object, on top of what was asked for.
};

// 8-byte aligned, `per_doubling` sizes between powers of two, up to `max`.
std::vector<std::uint32_t> geometric_classes(std::uint32_t per_doubling, std::uint32_t max);

// The two-level allocator of the paper, as occupancies.
class PaperAllocator {
 public:
  explicit PaperAllocator(PaperAllocatorOptions options);

  // `object` names the object until free(); at most one live object per name.
  void allocate(std::uint32_t object, std::uint32_t bytes);
  void free(std::uint32_t object);

  std::uint64_t live_bytes() const { return live_bytes_; }  // As asked for.
  // Bytes of blocks and pages now: active_bytes() of kNone, at no cost.
  std::uint64_t used_bytes() const { return used_block_bytes_ + own_page_bytes_; }
  // Bytes of blocks and pages left after one compaction by a strategy.
  std::uint64_t active_bytes(StrategyChoice choice) const;

 private:
  struct Block {
    std::uint32_t size_class;
    std::uint32_t thread;
    std::uint32_t live = 0;
  };
  struct Place {
    std::uint32_t block;  // kOwnPages: not in a block
    std::uint32_t bytes;
  };
  static constexpr std::uint32_t kOwnPages = UINT32_MAX;

  std::uint32_t block_bytes(std::uint32_t size_class) const {
    return options_.class_blocks.empty() ? options_.block_bytes : options_.class_blocks[size_class];
  }
  std::uint32_t slots(std::uint32_t size_class) const {
    return block_bytes(size_class) / options_.class_sizes[size_class];
  }
  // Blocks of a class that are left.
  std::uint64_t blocks_left(std::uint32_t size_class, StrategyChoice choice, Prng& random) const;
  std::uint32_t class_for(std::uint32_t bytes) const;
  std::uint32_t block_for(std::uint32_t size_class, std::uint32_t thread);
  // Changes a block's count and keeps open_ true.
  void add_objects(std::uint32_t block, int change);
  std::vector<std::uint32_t> occupancies(std::uint32_t size_class) const;

  PaperAllocatorOptions options_;
  Prng random_;
  std::vector<Block> blocks_;
  std::vector<std::uint32_t> free_blocks_;  // indexes of blocks_ without objects
  std::vector<Place> places_;               // by object name
  // Blocks of a class and thread that are not full, as (objects, block): the fullest,
  // the last, is taken.
  using OpenBlocks = std::set<std::pair<std::uint32_t, std::uint32_t>>;
  std::vector<OpenBlocks> open_;  // class × threads + thread
  std::uint64_t live_bytes_ = 0;
  std::uint64_t used_block_bytes_ = 0;
  std::uint64_t own_page_bytes_ = 0;
};

// How many blocks remain when blocks of the given occupancies are merged greedily
// and two conflict if random sets of their sizes out of `universe` values meet.
std::uint32_t merge_greedily(std::vector<std::uint32_t> occupancies, std::uint32_t slots,
                             std::uint32_t universe, Prng& random);

}  // namespace yonder::bench
