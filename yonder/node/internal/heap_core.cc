#include "yonder/node/internal/heap_core.h"

#include "yonder/base/check.h"

namespace yonder::node::internal {

HeapCore::HeapCore(const Clock& heap_clock, const HeapOptions& heap_options, SizeClasses size_classes,
                   std::unique_ptr<FrameStore> frame_store, std::unique_ptr<BlockTable> block_table,
                   os::Mapping frame_map)
    : clock(heap_clock),
      options(heap_options),
      classes(std::move(size_classes)),
      store(std::move(frame_store)),
      table(std::move(block_table)),
      map_memory(std::move(frame_map)),
      map(reinterpret_cast<std::atomic<Frame*>*>(map_memory.data())),
      threads({.max_threads = options.max_threads, .bins = classes.count() + 1, .seed = options.seed}),
      reclaimer(threads, *store) {
  for (std::size_t i = 0; i < classes.count(); ++i) {
    layouts.emplace_back(classes.validator(), classes[i].slot_bytes);
    pools.push_back(std::make_unique<ClassPool>(*this, static_cast<std::uint8_t>(i)));
  }
}

// The pools delete their frames; spans are in no pool.
HeapCore::~HeapCore() {
  for (std::uint32_t unit = 0; unit < store->unit_count(); ++unit) {
    Frame* frame = frame_at(FrameId(unit));
    if (frame != nullptr && frame->size_class == kSpanClass) FrameDeleter()(frame);
  }
}

Result<Frame*> HeapCore::make_frame(std::uint8_t size_class, const SizeClass& shape) {
  YONDER_TRY(id, store->allocate(shape.frame_bytes));
  FramePtr frame = Frame::create(id, store->address(id), size_class, shape);
  for (std::uint32_t group = 0; group < frame->group_count; ++group) {
    const Result<BlockId> block = table->open(id, group, size_class);
    if (!block) {
      for (std::uint32_t i = 0; i < group; ++i) table->close(BlockId(frame->blocks[i]));
      store->release(id, shape.frame_bytes);
      return std::unexpected(block.error());
    }
    frame->blocks[group].store(block->value(), std::memory_order_relaxed);
  }
  // release: pairs with the acquire in frame_at().
  map[id.value()].store(frame.get(), std::memory_order_release);
  return frame.release();
}

FramePtr HeapCore::unmake_frame(Frame& frame) {
  for (std::atomic<std::uint32_t>& block : frame.blocks) {
    const std::uint32_t id = block.exchange(0, std::memory_order_relaxed);
    if (id != 0) table->close(BlockId(id));
  }
  map[frame.id.value()].store(nullptr, std::memory_order_release);
  return FramePtr(&frame);
}

ObjectId HeapCore::new_id(const Frame& frame, std::uint32_t slot, ObjectId old, Prng& random) {
  const std::uint32_t low = slot & ((1u << frame.block_shift) - 1);
  for (;;) {
    const auto id = static_cast<std::uint16_t>((random() << frame.block_shift) | low);
    if (id != 0 && id != old.value()) return ObjectId(id);
  }
}

ObjectPtr HeapCore::place(Frame& frame, std::uint32_t slot, std::uint32_t bytes, Prng& random) const {
  const auto header = frame.header(slot);
  // relaxed: the slot is ours since we took its bit, which came with its lock.
  const HeaderWord old(header.load(std::memory_order_relaxed));
  YONDER_DCHECK(old.is_free(), "a free slot has a free header");
  const BlockId home = frame.block_of(slot);
  const HeaderWord word = old.reused_by(home, new_id(frame, slot, old.id(), random));
  layout_of(frame).clear(frame.slot(slot), word, old.never_used());
  // release: pairs with the acquire of whoever reads the header; the payload is zero.
  header.store(word.bits(), std::memory_order_release);
  return ObjectPtr({.home = home,
                    .id = word.id(),
                    .slot = slot,
                    .size = bytes,
                    .size_class = frame.size_class,
                    .node = options.node});
}

void HeapCore::forget_alien(HeaderWord word) {
  if (options.correction == Correction::kIndex) displaced.erase(word.home(), word.id());
  table->one_gone(word.home());
}

}  // namespace yonder::node::internal
