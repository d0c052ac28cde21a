#pragma once
// A block: far memory without a type, of which containers make their chunks and nodes.
//
// It is a far pointer (64 bits, relocatable) that owns 1 to 4096 bytes and knows how many. What
// lies in them is the container's affair: a block frees its memory and destroys nothing.
//
//   state   | enter    | prefetch, leave_soon | reset       | move from
//   --------+----------+----------------------+-------------+-----------
//   empty   | aborts   | nothing              | nothing     | empty
//   owns    | a hold   | hints                | memory gone | empty
//
// Concurrency: as far::unique_ptr: any number of threads may enter; making, moving and resetting
// need that nobody else uses it.
// Lifetime: the heap outlives it; a hold ends before the block does.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "yonder/base/result.h"
#include "yonder/heap/internal/barrier.h"
#include "yonder/heap/relocatable.h"
#include "yonder/heap/unique_ptr.h"

namespace yonder::heap::internal {

class Block {
 public:
  // New memory and a hold on it, for filling it.
  struct Fresh;

  Block() = default;
  Block(Block&& other) noexcept = default;
  Block& operator=(Block&& other) noexcept {
    if (this != &other) {
      const std::uint64_t word = other.cell_.take();
      reset();
      cell_.store(word);
    }
    return *this;
  }
  ~Block() { reset(); }

  // Errors: kOutOfMemory (far memory is full, or all local memory is held), and the node's.
  static Result<Fresh> make(std::size_t bytes);

  explicit operator bool() const { return !cell_.empty(); }
  std::size_t bytes() const { return cell_.empty() ? 0 : cell_.bytes(); }

  template <Access kAccess>
  std::byte* enter(PageHold& hold) const {
    const Entered entered = cell_.template enter<kAccess>();
    hold.reset(entered.hold);
    return entered.object;
  }
  template <Access kAccess>
  Result<std::byte*> try_enter(PageHold& hold) const {
    YONDER_TRY(entered, cell_.template try_enter<kAccess>());
    hold.reset(entered.hold);
    return entered.object;
  }

  // It will be needed soon. Never waits.
  void prefetch() const { cell_.prefetch(); }

  // It will not be needed soon: its page has no second chance when memory is short.
  void leave_soon() const {
    const PointerWord word{cell_.load()};
    if (word.is_null()) return;
    const PageEntry entry{g_view.entries[word.page()].load(std::memory_order_acquire)};
    // relaxed: a hint, like the clock hand's own; whoever uses the page sets it again.
    if (entry.is_local())
      g_view.entries[word.page()].fetch_and(~PageEntry::kReferenced, std::memory_order_relaxed);
  }

  void reset() {
    if (!cell_.empty()) free_object(cell_.take());
  }

 private:
  explicit Block(std::uint64_t word) : cell_(word) {}

  PointerCell cell_;
};
static_assert(sizeof(Block) == 8);

struct Block::Fresh {
  // Declared in this order: when it goes unused, the hold ends before the memory is freed.
  Block block;
  PageHold hold;
  std::byte* memory = nullptr;
};

inline Result<Block::Fresh> Block::make(std::size_t bytes) {
  PageHold hold;
  YONDER_TRY(placed, allocate(bytes, false, hold));
  return Fresh{.block = Block(placed.word.bits), .hold = std::move(hold), .memory = placed.bytes};
}

}  // namespace yonder::heap::internal

template <>
struct yonder::heap::is_relocatable<yonder::heap::internal::Block> : std::true_type {};
