#include "yonder/node/heap.h"

#include <algorithm>

#include "yonder/base/check.h"
#include "yonder/base/secure_random.h"
#include "yonder/node/block_table.h"
#include "yonder/node/internal/adoption.h"
#include "yonder/node/internal/heap_core.h"
#include "yonder/node/internal/kept_memory.h"

namespace yonder::node {

using internal::HeapCore;
using internal::KeptMemory;
using internal::NodeRecord;

namespace {

// V4 of block_views.h.
void rest_ids(BlockTable::Options& table, const Clock& clock, const HeapOptions& options) {
  if (options.remap != Remap::kMmap) return;
  table.clock = &clock;
  table.rest = 2 * kVersionWrapBound;
}

// Ids for blocks that cannot have their natural one: it is still the home of
// objects that have moved away, or their frames have more blocks than natural ids. As
// many again as a full heap has blocks, because a block closed by compaction keeps its
// id for as long as one of its objects lives, and never fewer than a small heap can
// need; ids that were never used cost nothing.
BlockTable::Options table_options(const FrameStore& store, const SizeClasses& classes, const Clock& clock,
                                  const HeapOptions& options) {
  if (options.remap == Remap::kMmap) {
    // Every id is a range of addresses, so the first ids are used again before others, and
    // none means a frame. Twice as many as there can be frames: see above.
    const std::uint64_t limit = options.max_views != 0 ? options.max_views : BlockViews::default_limit();
    const std::uint64_t ids = std::min(std::uint64_t{store.max_units()} * 2, limit + 1);  // Id 0 is none.
    BlockTable::Options out{.spare = static_cast<std::uint32_t>(ids)};
    rest_ids(out, clock, options);
    return out;
  }
  constexpr std::uint64_t kIds = std::uint64_t{1} << kBlockIdBits;
  const std::uint64_t natural = std::uint64_t{store.max_units()} * BlockTable::kNaturalPerUnit;
  std::uint64_t per_unit = BlockTable::kNaturalPerUnit;
  for (std::size_t i = 0; i < classes.count(); ++i) {
    const std::uint64_t units = classes[i].frame_bytes / kUnitBytes;
    per_unit = std::max(per_unit, (classes[i].blocks + units - 1) / units);
  }
  const std::uint64_t spare =
      std::clamp<std::uint64_t>(std::uint64_t{store.max_units()} * per_unit, 1 << 16, kIds / 2);
  return {.natural = static_cast<std::uint32_t>(std::min(natural, kIds - spare)),
          .spare = static_cast<std::uint32_t>(spare)};
}

FrameStoreOptions store_options(const HeapOptions& options) {
  return {.limit = options.limit,
          .superblock = options.superblock,
          .huge_pages = options.huge_pages,
          .give_back = options.give_back,
          .on_superblock = options.on_superblock};
}

}  // namespace

double ClassStats::fragmentation() const {
  if (slots == 0) return 1;
  return static_cast<double>(slots) / static_cast<double>(std::max<std::uint64_t>(live, 1));
}

Result<std::unique_ptr<Heap>> Heap::create(const Clock& clock, const HeapOptions& options) {
  if (options.max_threads == 0) return fail(ErrorCode::kInvalidArgument, "heap for no thread");
  if (options.correction == Correction::kOwner && options.owners == 0) {
    return fail(ErrorCode::kInvalidArgument, "heap: correction by owners, and none");
  }
  if (options.longest_copy < Duration::zero() || options.longest_copy > kVersionWrapBound) {
    return fail(ErrorCode::kInvalidArgument, "heap: longest copy, ns", options.longest_copy.count());
  }
  HeapOptions chosen = options;
  YONDER_TRY(life, secure_random_u64());
  if (chosen.seed == 0) chosen.seed = life;
  if (options.remap == Remap::kMmap) {
    if (options.huge_pages != os::HugePages::kOff) {
      return fail(ErrorCode::kInvalidArgument, "heap: remapping frames of 4 KiB pages and huge pages");
    }
    // A block is a range of addresses only if it is a range of pages.
    chosen.classes.whole_frame_blocks = true;
  }
  YONDER_TRY(classes, SizeClasses::create(chosen.classes));
  // The largest object has room in one, with all that its validator adds.
  if (options.superblock.count() < classes.span_bytes_for(kMaxObjectBytes)) {
    return fail(ErrorCode::kInvalidArgument, "superblock size",
                static_cast<std::int64_t>(options.superblock.count()));
  }
  if (options.keeper != nullptr) return create_kept(clock, std::move(chosen), std::move(classes), life | 1);
  YONDER_TRY(store, FrameStore::create(clock, store_options(chosen)));
  YONDER_TRY(table, BlockTable::create(table_options(*store, classes, clock, chosen)));
  YONDER_TRY(core, make_core(clock, chosen, std::move(classes), std::move(store), std::move(table)));
  core->set_life(life | 1);
  return std::unique_ptr<Heap>(new Heap(std::move(core)));
}

Result<std::unique_ptr<HeapCore>> Heap::make_core(const Clock& clock, const HeapOptions& options,
                                                  SizeClasses classes, std::unique_ptr<FrameStore> store,
                                                  std::unique_ptr<BlockTable> table) {
  YONDER_TRY(map, os::Mapping::anonymous({.bytes = std::size_t{store->max_units()} * sizeof(void*)}));
  auto core = std::make_unique<HeapCore>(clock, options, std::move(classes), std::move(store),
                                         std::move(table), std::move(map));
  if (options.remap == Remap::kMmap) YONDER_TRY_VOID(core->add_views());
  return core;
}

// The same with memory that somebody holds for whoever comes next, and may hold already.
Result<std::unique_ptr<Heap>> Heap::create_kept(const Clock& clock, HeapOptions options, SizeClasses classes,
                                                std::uint64_t life) {
  const auto kept = std::make_shared<KeptMemory>(*options.keeper);
  YONDER_TRY_VOID(kept->look());
  options.on_superblock = [kept, told = options.on_superblock](const Superblock& superblock) -> Result<void> {
    YONDER_TRY_VOID(kept->keep_superblock(superblock));
    return told ? told(superblock) : Result<void>();
  };
  const auto shape = NodeRecord::shape_of(options.node, options.classes, classes, options.superblock.count());
  const bool adopts = !kept->is_empty();
  YONDER_TRY(store, FrameStore::create(clock, store_options(options)));
  std::unique_ptr<BlockTable> table;
  if (adopts) {
    YONDER_TRY_VOID(kept->resume(shape));
    YONDER_TRY(memfd, kept->take_table());
    BlockTable::Options made_with = kept->record->choice().table;
    rest_ids(made_with, clock, options);
    YONDER_TRY(adopted, BlockTable::adopt(made_with, std::move(memfd)));
    table = std::move(adopted);
    YONDER_TRY(superblocks, kept->take_superblocks());
    for (os::Memfd& superblock : superblocks) YONDER_TRY_VOID(store->adopt_superblock(std::move(superblock)));
  } else {
    YONDER_TRY(made, BlockTable::create(table_options(*store, classes, clock, options)));
    table = std::move(made);
    const NodeRecord::Choice choice{.life = life, .seed = options.seed, .table = table->options()};
    YONDER_TRY_VOID(kept->begin(shape, choice, table->memfd(), options.max_threads));
  }
  YONDER_TRY(core, make_core(clock, options, std::move(classes), std::move(store), std::move(table)));
  core->record = std::move(kept->record);
  core->set_life(core->record->choice().life);
  core->set_id_step(core->record->choice().seed);
  std::optional<AdoptionReport> report;
  if (adopts) {
    YONDER_TRY(found, internal::Adoption(*core, *kept->journal).run());
    report = found;
    YONDER_TRY_VOID(kept->renew_journal(options.max_threads));
  }
  core->set_journal(std::move(kept->journal));
  std::unique_ptr<Heap> heap(new Heap(std::move(core)));
  heap->adoption_ = report;
  return heap;
}

Heap::Heap(std::unique_ptr<HeapCore> core) : core_(std::move(core)) {
  core_->compactor = std::make_unique<Compactor>(*core_, core_->options.compaction);
}

Heap::~Heap() {
  for (const internal::ThreadRecord& record : core_->threads.records()) {
    YONDER_CHECK(!record.registered, "threads leave before their heap goes");
  }
}

Result<HeapThread> Heap::register_thread() {
  YONDER_TRY(record, core_->threads.add());
  if (core_->desks != nullptr) core_->desks->arrive(record->index);
  return HeapThread(*core_, *record);
}

HeapStats Heap::stats() const {
  HeapStats out;
  const std::size_t classes = core_->classes.count();
  out.classes.resize(classes + 1);
  for (std::size_t i = 0; i <= classes; ++i) {
    ClassStats& stats = out.classes[i];
    for (const internal::ThreadRecord& record : core_->threads.records()) {
      stats.allocated += record.bins[i].allocated.get();
      stats.freed += record.bins[i].freed.get();
    }
    // Counters of different threads are read one after the other: a free may be
    // seen before the allocation it ends.
    stats.live = stats.allocated - std::min(stats.allocated, stats.freed);
    if (i == classes) continue;
    const SizeClass& shape = core_->classes[i];
    stats.slot_bytes = shape.slot_bytes;
    stats.frames = core_->pools[i]->frame_count();
    stats.slots = stats.frames * shape.slots;
    stats.frame_bytes = stats.frames * shape.frame_bytes;
  }
  for (const internal::ThreadRecord& record : core_->threads.records()) {
    out.corrections += record.corrections.get();
  }
  if (core_->desks != nullptr) out.owner_answers = core_->desks->answers();
  out.active_bytes = core_->store->active_bytes();
  out.retired_bytes = core_->reclaimer.waiting_bytes();
  out.blocks = core_->table->in_use();
  out.metadata_bytes = core_->metadata_bytes();
  return out;
}

Compactor& Heap::compactor() { return *core_->compactor; }
bool Heap::reclaim() {
  for (const auto& pool : core_->pools) pool->trim();
  return core_->reclaimer.poll();
}
void Heap::offer_leftovers() {
  for (const auto& pool : core_->pools) pool->offer_leftovers();
}
std::uint64_t Heap::life() const { return core_->life; }
const FrameStore& Heap::frames() const { return *core_->store; }
const BlockTable& Heap::blocks() const { return *core_->table; }
const BlockViews* Heap::views() const { return core_->views.get(); }
const SizeClasses& Heap::classes() const { return core_->classes; }

}  // namespace yonder::node
