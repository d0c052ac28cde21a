#include "yonder/segment/heap.h"

#include <algorithm>
#include <bit>
#include <new>

#include "yonder/base/check.h"

namespace yonder::segment {

namespace {

// "YNDRHEAP" and the version of the layout.
constexpr std::uint64_t kMagic = 0x50414548'52444e59 + 2;

// How many blocks of nearly the right size an allocation looks at before it says no:
// enough for a heap that is full of a few sizes, and still a constant.
constexpr unsigned kLooks = 64;

constexpr std::size_t round_up(std::size_t bytes, std::size_t granule) {
  return (bytes + granule - 1) & ~(granule - 1);
}

constexpr std::size_t first_offset(std::size_t head) {
  // The payload, one word after the block, is aligned.
  return round_up(head + Heap::kWordBytes, Heap::kGranule) - Heap::kWordBytes;
}

}  // namespace

Heap::Place Heap::place_of(std::size_t bytes) {
  constexpr std::size_t kLinear = std::size_t{1} << kFirstLog;
  if (bytes < kLinear) return {0, static_cast<unsigned>(bytes / kGranule)};
  const unsigned log = static_cast<unsigned>(std::bit_width(bytes)) - 1;
  // The four bits below the highest one.
  return {log - kFirstLog + 1, static_cast<unsigned>(bytes >> (log - 4)) & (kSteps - 1)};
}

Heap::Place Heap::place_for(std::size_t bytes) {
  constexpr std::size_t kLinear = std::size_t{1} << kFirstLog;
  if (bytes >= kLinear) {
    const unsigned log = static_cast<unsigned>(std::bit_width(bytes)) - 1;
    bytes += (std::size_t{1} << (log - 4)) - 1;
  }
  return place_of(bytes);
}

const Heap::Block* Heap::first_block() const {
  return reinterpret_cast<const Block*>(reinterpret_cast<const std::byte*>(this) +
                                        first_offset(sizeof(Heap)));
}

// The last word of the memory: a used block without payload, so that no walk and no
// joining goes beyond.
const Heap::Block* Heap::sentinel() const {
  return reinterpret_cast<const Block*>(reinterpret_cast<const std::byte*>(first_block()) + capacity());
}

std::size_t Heap::capacity() const {
  return (bytes_ - first_offset(sizeof(Heap)) - kWordBytes) & ~std::size_t{kGranule - 1};
}

Result<Heap*> Heap::format(std::span<std::byte> memory) {
  static_assert(sizeof(Heap) < kMinBytes / 2);
  if (reinterpret_cast<std::uintptr_t>(memory.data()) % kGranule != 0 || memory.size() < kMinBytes ||
      memory.size() >= std::size_t{1} << kLastLog) {
    return fail(ErrorCode::kInvalidArgument, "format a heap in a segment",
                static_cast<std::int64_t>(memory.size()));
  }
  Heap* heap = new (memory.data()) Heap;
  heap->self_ = heap;
  heap->bytes_ = memory.size();
  heap->used_bytes_ = 0;
  heap->allocations_ = 0;
  heap->touched_ = first_offset(sizeof(Heap)) + sizeof(Block);
  heap->root_ = nullptr;
  heap->rows_ = 0;
  heap->steps_.fill(0);
  for (auto& row : heap->lists_) row.fill(nullptr);
  heap->aside_.fill(nullptr);
  heap->aside_counts_.fill(0);
  Block* all = heap->first_block();
  all->word = 0;
  heap->make_free(all, heap->capacity());
  heap->magic_ = kMagic;
  return heap;
}

Result<Heap*> Heap::adopt(std::span<std::byte> memory) {
  if (reinterpret_cast<std::uintptr_t>(memory.data()) % kGranule != 0 || memory.size() < kMinBytes)
    return fail(ErrorCode::kInvalidArgument, "adopt the heap of a segment");
  Heap* heap = reinterpret_cast<Heap*>(memory.data());
  if (heap->magic_ != kMagic || heap->self_ != heap || heap->bytes_ != memory.size())
    return fail(ErrorCode::kCorrupt, "adopt the heap of a segment");
  return heap;
}

void Heap::list(Block* block) {
  const Place place = place_of(block->bytes());
  Block*& head = lists_[place.row][place.step];
  block->next = head;
  block->previous = nullptr;
  if (head != nullptr) head->previous = block;
  head = block;
  steps_[place.row] = static_cast<std::uint16_t>(steps_[place.row] | (1u << place.step));
  rows_ |= std::uint64_t{1} << place.row;
}

void Heap::unlist(Block* block) {
  if (block->next != nullptr) block->next->previous = block->previous;
  if (block->previous != nullptr) {
    block->previous->next = block->next;
    return;
  }
  const Place place = place_of(block->bytes());
  lists_[place.row][place.step] = block->next;
  if (block->next != nullptr) return;
  steps_[place.row] = static_cast<std::uint16_t>(steps_[place.row] & ~(1u << place.step));
  if (steps_[place.row] == 0) rows_ &= ~(std::uint64_t{1} << place.row);
}

// A block of at least `bytes`, taken out of its list; null if none was found.
Heap::Block* Heap::find(std::size_t bytes) {
  // Programs free and allocate the same few sizes: what was freed last fits best.
  if (Block* block = find_alike(bytes, 1)) return block;
  Place place = place_for(bytes);
  if (place.row >= kRows) return nullptr;
  unsigned steps = steps_[place.row] & (~0u << place.step);
  if (steps == 0) {
    const std::uint64_t rows = rows_ & (~std::uint64_t{1} << place.row);
    // Nearly full: the list of this size also has blocks that are a little shorter.
    if (rows == 0) return find_alike(bytes, kLooks);
    place.row = static_cast<unsigned>(std::countr_zero(rows));
    steps = steps_[place.row];
  }
  Block* block = lists_[place.row][static_cast<unsigned>(std::countr_zero(steps))];
  unlist(block);
  return block;
}

// Among the first `looks` blocks of the list that `bytes` itself belongs to.
Heap::Block* Heap::find_alike(std::size_t bytes, unsigned looks) {
  const Place place = place_of(bytes);
  if (place.row >= kRows) return nullptr;
  for (Block* block = lists_[place.row][place.step]; block != nullptr && looks > 0; --looks) {
    if (block->bytes() >= bytes) {
      unlist(block);
      return block;
    }
    block = block->next;
  }
  return nullptr;
}

// Keeps the bit about what lies before; tells the block after.
void Heap::make_free(Block* block, std::size_t bytes) {
  block->word = bytes | Block::kFree | (block->word & Block::kFreeBefore);
  block->write_last_word();
  block->after()->word |= Block::kFreeBefore;
  list(block);
}

void Heap::use(Block* block, std::size_t bytes) {
  const std::size_t rest = block->bytes() - bytes;
  const std::uint64_t before = block->word & Block::kFreeBefore;
  if (rest >= kMinBlock) {
    block->word = bytes | before;
    Block* remainder = block->after();
    remainder->word = 0;
    make_free(remainder, rest);
  } else {
    block->word = block->bytes() | before;
    block->after()->word &= ~Block::kFreeBefore;
  }
  used_bytes_ += block->bytes();
  ++allocations_;
  // The word and links of the block behind count: they were just written.
  const auto end = static_cast<std::size_t>(block->begin() - reinterpret_cast<std::byte*>(this)) +
                   block->bytes() + sizeof(Block);
  touched_ = std::max<std::size_t>(touched_, std::min<std::size_t>(end, bytes_));
}

Heap::Block* Heap::cut_front(Block* block, std::size_t bytes) {
  const std::size_t rest = block->bytes() - bytes;
  Block* kept = reinterpret_cast<Block*>(block->begin() + bytes);
  kept->word = rest | Block::kFree;
  make_free(block, bytes);
  return kept;
}

void* Heap::allocate_listed(std::size_t bytes, std::size_t alignment) {
  YONDER_DCHECK(std::has_single_bit(alignment), "an alignment is a power of two");
  if (bytes > bytes_ || alignment > bytes_) [[unlikely]]
    return nullptr;
  void* allocation = allocate_once(bytes, alignment);
  if (allocation == nullptr && join_aside()) allocation = allocate_once(bytes, alignment);
  return allocation;
}

void* Heap::allocate_once(std::size_t bytes, std::size_t alignment) {
  const std::size_t need = block_bytes(bytes);
  if (alignment <= kGranule) [[likely]] {
    Block* block = find(need);
    if (block == nullptr) [[unlikely]]
      return nullptr;
    use(block, need);
    return block->payload();
  }
  // Room to move the start forward, by nothing or by at least a block.
  Block* block = find(need + alignment + kMinBlock);
  if (block == nullptr) return nullptr;
  const auto start = reinterpret_cast<std::uintptr_t>(block->payload());
  std::uintptr_t aligned = round_up(start, alignment);
  while (aligned != start && aligned - start < kMinBlock) aligned += alignment;
  if (aligned != start) block = cut_front(block, aligned - start);
  use(block, need);
  return block->payload();
}

bool Heap::join_aside() {
  bool any = false;
  for (std::size_t i = 0; i < aside_.size(); ++i) {
    while (Block* block = aside_[i]) {
      aside_[i] = block->next;
      block->word &= ~Block::kAside;
      join_and_list(block);
      any = true;
    }
    aside_counts_[i] = 0;
  }
  return any;
}

void Heap::join_and_list(Block* block) {
  std::size_t bytes = block->bytes();
  if (Block* after = block->after(); after->is_free()) {
    unlist(after);
    bytes += after->bytes();
  }
  if (block->is_free_before()) {
    block = block->before();
    unlist(block);
    bytes += block->bytes();
  }
  make_free(block, bytes);
}

std::size_t Heap::usable_bytes(const void* allocation) { return Block::of(allocation)->bytes() - kWordBytes; }

std::size_t Heap::largest_allocation() const {
  if (rows_ == 0) return 0;
  const unsigned row = static_cast<unsigned>(std::bit_width(rows_)) - 1;
  const unsigned step = static_cast<unsigned>(std::bit_width(std::uint64_t{steps_[row]})) - 1;
  // The smallest size that is listed there: a request of it finds the list.
  const std::size_t smallest =
      row == 0 ? step * kGranule
               : (std::size_t{1} << (row + kFirstLog - 1)) + (std::size_t{step} << (row + kFirstLog - 5));
  return smallest - kWordBytes;
}

bool Heap::check_invariants() const {
  std::size_t used = 0;
  std::size_t allocations = 0;
  bool free_before = false;
  const Block* block = first_block();
  const Block* end = sentinel();
  while (block < end) {
    if (block->is_free_before() != free_before) return false;              // H3
    if (free_before && block->is_free()) return false;                     // H2
    if (block->bytes() < kMinBlock || block->after() > end) return false;  // H1
    free_before = block->is_free();
    if (!free_before) {
      used += block->is_aside() ? 0 : block->bytes();
      allocations += block->is_aside() ? 0 : 1;
    } else if (block->after()->last_word_before() != block->bytes()) {  // H3
      return false;
    }
    block = block->after();
  }
  return block == end && end->is_free_before() == free_before && used == used_bytes_ &&
         allocations == allocations_ && check_lists() && check_aside();
}

// H6: what is in the lists is marked and of the list's size, and nothing else is marked.
bool Heap::check_aside() const {
  std::size_t marked = 0;
  for (const Block* block = first_block(); block != sentinel(); block = block->after())
    marked += block->is_aside() ? 1 : 0;
  std::size_t listed = 0;
  for (std::size_t i = 0; i < aside_.size(); ++i) {
    std::size_t count = 0;
    for (const Block* block = aside_[i]; block != nullptr; block = block->next) {
      if (!block->is_aside() || block->bytes() != i * kGranule || ++count > kAside) return false;
    }
    if (count != aside_counts_[i]) return false;
    listed += count;
  }
  return listed == marked;
}

// H4: what is listed is free and in its place, and there are as many as free blocks.
bool Heap::check_lists() const {
  std::size_t free_blocks = 0;
  for (const Block* block = first_block(); block != sentinel(); block = block->after())
    free_blocks += block->is_free() ? 1 : 0;
  std::size_t listed = 0;
  for (unsigned row = 0; row < kRows; ++row) {
    if (((rows_ >> row) & 1) != (steps_[row] != 0 ? 1u : 0u)) return false;
    for (unsigned step = 0; step < kSteps; ++step) {
      const Block* block = lists_[row][step];
      if (((steps_[row] >> step) & 1u) != (block != nullptr ? 1u : 0u)) return false;
      for (; block != nullptr; block = block->next) {
        const Place place = place_of(block->bytes());
        if (!block->is_free() || place.row != row || place.step != step) return false;
        if (++listed > free_blocks) return false;
      }
    }
  }
  return listed == free_blocks;
}

}  // namespace yonder::segment
