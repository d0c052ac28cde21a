#pragma once
// Block views: every block at an address of its own, whatever frame it is in.
//
// The other way to publish where a block is (CoRM 3.1.5; `Remap::kMmap`): the block has
// a range of addresses for as long as its id lives, and when compaction moves it the
// range is mapped onto its new frame. A reader needs no table: an object is at
// address(home block) + slot × slot size. Local readers use it here, remote ones through
// a region (internal/nic_views.h).
//
//   views    | block 0 | block 1 | block 2 | …      id × stride
//                  |         \________
//   frames   | frame a        | frame b     |      after two blocks were merged
//
// A range of an id that is not in use reads as zeros: free headers. So no id that a
// pointer may contain leads to a fault. Ranges are read-only; writers use the frames.
//
// What a reader sees that races with a switch from frame a to frame b:
//   V1  Each access sees a or b, and whoever has seen b sees a no more: the kernel ends
//       the whole old mapping, in the TLBs of all processors and in the NICs that follow
//       page tables, before the new one begins.
//   V2  Both frames are whole all the while. Every object of the block is in b before the
//       switch begins (R3 of compaction_run.h), its slot in a says *moved*, and a is
//       retired after move() has succeeded, then rests (frame_store.h, quarantine).
//   V3  A copy made of a and b together has, in the part that came from b, either the same
//       object in the same slot (objects keep their slots where they can) or another's
//       bytes. Looking at the header again *afterwards* tells which: by V1 that look sees
//       b. If it names the object with the version of the first look, then what came
//       from b is that version too (H1), else the copy is refused. A checksum tells the
//       same by itself. Versions per line do not: another object's lines may carry the same
//       byte; readers of views look at the header again with them (one_sided_read.h).
//   V4  An id rests between two uses (BlockTable::Options::rest) for longer than a read may
//       take, so the class of a block does not change within one.
//
// The price: a system call per block made, moved or given back (7 to 65 µs, with a TLB
// shoot-down), and up to two mappings of the kernel per block (vm.max_map_count, 65,530):
// hence `default_limit()`, and frames of 64 KiB and more. Spans have no view; they do not
// move.
//
// Concurrency: address() from any thread; the others for one block by one thread at a
// time.
// Lifetime: frame store and observer outlive it.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "yonder/base/result.h"
#include "yonder/node/block_table.h"
#include "yonder/node/frame_store.h"
#include "yonder/node/size_class.h"
#include "yonder/os/mapping.h"

namespace yonder::node {

// A block at its address, and what the address shows.
struct BlockView {
  BlockId block;
  std::span<std::byte> memory;
  FrameStore::FilePlace file;
};

// Somebody who must be told what a view shows before readers rely on it: a NIC with page
// tables of its own. Called as a BlockMirror is, with the same meaning of errors.
class ViewObserver {
 public:
  virtual ~ViewObserver() = default;
  virtual Result<void> placed(const BlockView& view) = 0;
  virtual Result<void> moved(const BlockView& view) = 0;
  // Also for views that it was never told of. The view reads as zeros afterwards.
  virtual void removed(BlockId block) = 0;
};

class BlockViews final : public BlockMirror {
 public:
  // For the ids below `ids`. kOutOfMemory: no such address space.
  static Result<std::unique_ptr<BlockViews>> create(const FrameStore& store, const SizeClasses& classes,
                                                    std::uint64_t ids, ViewObserver* observer);
  // How many blocks can have a view if the rest of the process gets its share of mappings.
  static std::uint32_t default_limit();

  // Where the slots of a block begin. Requires an id below `ids`.
  std::byte* address(BlockId block) const { return views_.data() + block.value() * stride_; }
  // All views, one after the other, and the distance between two.
  std::span<std::byte> memory() const { return views_.bytes(); }
  std::uint64_t stride() const { return stride_; }

  // The view of a block that is in this frame. Requires a class that is not the spans'.
  BlockView view_of(BlockId block, FrameId frame, std::uint8_t size_class) const;

  // kResourceExhausted: the system has no more mappings. Errors of the observer.
  Result<void> place(BlockId block, FrameId frame, std::uint8_t size_class) override;
  Result<void> move(BlockId block, FrameId frame, std::uint8_t size_class) override;
  void remove(BlockId block, std::uint8_t size_class) override;

 private:
  BlockViews(const FrameStore& store, const SizeClasses& classes, std::uint64_t stride, os::Mapping views,
             ViewObserver* observer)
      : store_(store), classes_(classes), stride_(stride), views_(std::move(views)), observer_(observer) {}
  Result<BlockView> map(BlockId block, FrameId frame, std::uint8_t size_class);

  const FrameStore& store_;
  const SizeClasses& classes_;
  const std::uint64_t stride_;
  os::Mapping views_;
  ViewObserver* const observer_;  // Null: nobody needs to know.
};

}  // namespace yonder::node
