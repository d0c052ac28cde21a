#pragma once
// Block views: every block at an address of its own, whatever frame it is in.
//
// The other way to publish where a block is (CoRM 3.1.5; `Remap::kMmap`): the block has
// a range of addresses for as long as its id lives, and when compaction moves it the
// range is mapped onto its new frame. A reader needs no table: an object is at
// address(home block) + slot × slot size. Local readers use it here; an RNIC that
// follows page tables (ODP) can be given the whole range as one region.
//
//   views    | block 0 | block 1 | block 2 | …      id × stride
//                  |         \________
//   frames   | frame a        | frame b     |      after two blocks were merged
//
// A range of an id that is not in use reads as zeros: free headers. So no id that a
// pointer may contain leads to a fault. Ranges are read-only; writers use the frames.
//
// The price: a system call per block made, moved or given back (7 to 65 µs, with a TLB
// shoot-down), and a mapping of the kernel per block (vm.max_map_count, 65,530): for
// frames of 64 KiB and more. Spans have no view; they do not move.
//
// Concurrency: address() from any thread; the others for one block by one thread at a
// time. A reader that races with a switch sees pages of both frames, and finds out by
// the header (proves_copy), as with any other change.
// Lifetime: the frame store outlives it.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "yonder/base/result.h"
#include "yonder/node/block_table.h"
#include "yonder/node/frame_store.h"
#include "yonder/node/size_class.h"
#include "yonder/os/mapping.h"

namespace yonder::node {

class BlockViews final : public BlockMirror {
 public:
  // For the ids below `ids`. kOutOfMemory: no such address space.
  static Result<std::unique_ptr<BlockViews>> create(const FrameStore& store, const SizeClasses& classes,
                                                    std::uint64_t ids);

  // Where the slots of a block begin. Requires an id below `ids`.
  std::byte* address(BlockId block) const { return views_.data() + block.value() * stride_; }

  // kResourceExhausted: the system has no more mappings.
  Result<void> place(BlockId block, FrameId frame, std::uint8_t size_class) override;
  void remove(BlockId block, std::uint8_t size_class) override;

 private:
  BlockViews(const FrameStore& store, const SizeClasses& classes, std::uint64_t stride, os::Mapping views)
      : store_(store), classes_(classes), stride_(stride), views_(std::move(views)) {}

  const FrameStore& store_;
  const SizeClasses& classes_;
  const std::uint64_t stride_;
  os::Mapping views_;
};

}  // namespace yonder::node
