#include "yonder/node/internal/heap_core.h"

#include <algorithm>

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
      threads({.max_threads = options.max_threads, .classes = &classes, .seed = options.seed}),
      reclaimer(threads, *store),
      desks(options.correction == Correction::kOwner
                ? std::make_unique<OwnerDesks>(
                      OwnerDesks::Options{.desks = options.owners, .threads = options.max_threads})
                : nullptr) {
  set_id_step(options.seed);
  for (std::size_t i = 0; i < classes.count(); ++i) {
    const SizeClass& shape = classes[i];
    layouts.emplace_back(classes.validator(), shape.slot_bytes);
    facts[i] = {.capacity = static_cast<std::uint32_t>(layouts.back().capacity()),
                .slots = shape.slots,
                .slot_bytes = shape.slot_bytes,
                .block_shift = shape.block_shift,
                .blocks_offset = static_cast<std::uint32_t>(Frame::blocks_offset(shape))};
    pools.push_back(std::make_unique<ClassPool>(*this, static_cast<std::uint8_t>(i)));
  }
}

// The pools delete their frames; spans are in no pool.
HeapCore::~HeapCore() {
  const std::uint32_t units = store->unit_count();
  for (std::uint32_t unit = 0; unit < units; ++unit) {
    Frame* frame = frame_at(FrameId(unit));
    if (frame != nullptr && frame->size_class == kSpanClass) FrameDeleter()(frame);
  }
}

Result<void> HeapCore::add_views() {
  YONDER_TRY(made, BlockViews::create(*store, classes, table->capacity(), options.view_observer));
  views = std::move(made);
  table->set_mirror(views.get());
  return {};
}

void HeapCore::set_journal(std::unique_ptr<WriteJournal> made) {
  journal = std::move(made);
  std::uint32_t next = 0;
  for (ThreadRecord& thread : threads.all_records()) thread.journal.emplace(journal->lane(next++));
}

Result<Frame*> HeapCore::make_frame(std::uint8_t size_class, const SizeClass& shape) {
  YONDER_TRY(id, store->allocate(shape.frame_bytes));
  FramePtr frame = Frame::create(id, store->address(id), size_class, shape);
  // Before its block is in the table: whoever finds that needs the length (survey.cc).
  if (size_class == kSpanClass && record != nullptr) record->set_span(id, shape.frame_bytes / kUnitBytes);
  for (std::uint32_t group = 0; group < shape.blocks; ++group) {
    const Result<BlockId> block = open_block(id, group, size_class, shape);
    if (!block) {
      for (std::uint32_t i = 0; i < group; ++i) table->close(BlockId(frame->blocks()[i]));
      store->release(id, shape.frame_bytes);
      return std::unexpected(block.error());
    }
    frame->blocks()[group].store(block->value(), std::memory_order_relaxed);
  }
  enter_frame(*frame);
  return frame.release();
}

Result<BlockId> HeapCore::open_block(FrameId frame, std::uint32_t group, std::uint8_t size_class,
                                     const SizeClass& shape) {
  const bool natural = group < shape.frame_bytes / kUnitBytes * BlockTable::kNaturalPerUnit;
  return table->open(frame, natural ? group : BlockTable::kNotNatural, size_class);
}

void HeapCore::enter_frame(Frame& frame) {
  frame_footprints.fetch_add(Frame::footprint(frame.size_class, *frame.shape), std::memory_order_relaxed);
  // release: pairs with the acquire in frame_at().
  map[frame.id.value()].store(&frame, std::memory_order_release);
}

FramePtr HeapCore::unmake_frame(Frame& frame) {
  for (std::atomic<std::uint32_t>& block : frame.blocks()) {
    const std::uint32_t id = block.exchange(0, std::memory_order_relaxed);
    if (id != 0) table->close(BlockId(id));
  }
  if (frame.size_class == kSpanClass && record != nullptr) record->set_span(frame.id, 0);
  frame_footprints.fetch_sub(Frame::footprint(frame.size_class, *frame.shape), std::memory_order_relaxed);
  map[frame.id.value()].store(nullptr, std::memory_order_release);
  return FramePtr(&frame);
}

std::uint64_t HeapCore::metadata_bytes() const {
  std::uint64_t bytes = frame_footprints.load(std::memory_order_relaxed);
  const std::uint64_t units = store->active_bytes() / kUnitBytes;
  bytes += units * sizeof(Frame*);
  return bytes + BlockTable::kBytesPerId *
                     std::max<std::uint64_t>(units * BlockTable::kNaturalPerUnit, table->in_use());
}

void HeapCore::note_displaced(BlockId home, ObjectId id, std::uint32_t slot) {
  if (options.correction == Correction::kIndex) displaced.put(home, id, slot);
  if (desks != nullptr) desks->put(home, id, slot);
}

std::optional<std::uint32_t> HeapCore::displaced_slot(const ThreadRecord& asker, ObjectPtr object) const {
  if (options.correction == Correction::kIndex) return displaced.find(object.home(), object.id());
  if (desks != nullptr) return desks->find(asker.index, object.home(), object.id());
  return std::nullopt;
}

void HeapCore::forget_alien(HeaderWord word) {
  if (options.correction == Correction::kIndex) displaced.erase(word.home(), word.id());
  if (desks != nullptr) desks->erase(word.home(), word.id());
  table->one_gone(word.home());
}

}  // namespace yonder::node::internal
