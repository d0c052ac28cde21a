// HeapThread: allocation, freeing, new homes.
#include <thread>
#include <utility>

#include "yonder/base/check.h"
#include "yonder/node/heap.h"
#include "yonder/node/internal/heap_core.h"
#include "yonder/node/internal/locate.h"
#include "yonder/node/internal/waiter.h"

namespace yonder::node {

using internal::Bin;
using internal::Frame;
using internal::FramePtr;
using internal::FrameState;
using internal::FreeSlot;
using internal::Place;
using internal::Section;
using internal::SpinGuard;

namespace {

// How often an allocation that met the limit tries again: each time something was
// freed, but other threads may have been faster.
constexpr int kReliefs = 8;
// Looks at whether slow readers have left the retired frames.
constexpr int kReclaimPolls = 64;

}  // namespace

HeapThread::HeapThread(HeapThread&& other) noexcept
    : core_(other.core_), record_(std::exchange(other.record_, nullptr)) {}

HeapThread::~HeapThread() {
  if (record_ == nullptr) return;
  for (std::size_t i = 0; i < core_->classes.count(); ++i) core_->pools[i]->abandon(record_->bins[i]);
  if (core_->desks != nullptr) core_->desks->leave(record_->index);
  core_->threads.remove(*record_);
}

void HeapThread::answer_others() {
  if (core_->desks != nullptr) core_->desks->serve(record_->index);
}

// The common way; null if the size is no object's, or the thread has no slot of its
// own. (The bin of spans is never open.)
ObjectPtr HeapThread::alloc_from_bin(std::uint32_t bytes) {
  if (bytes - 1 >= kMaxObjectBytes) [[unlikely]]
    return {};
  const std::uint8_t size_class = core_->classes.class_for(bytes);
  internal::ThreadRecord& record = *record_;
  Bin& bin = record.bin(size_class);
  Section section(record, internal::kUsesBins);
  FreeSlot slot;
  // acquire: pairs with the release in ClassPool::allocate() (this thread) and sees
  // the compactor's false (R3 of thread_record.h).
  if (!bin.open.load(std::memory_order_acquire) || !bin.take(slot)) [[unlikely]]
    return {};
  bin.allocated.add(1);
  return core_->place(slot, size_class, bytes, record.random);
}

Result<ObjectPtr> HeapThread::alloc_elsewhere(std::uint32_t bytes, AtLimit at_limit) {
  if (bytes == 0 || bytes > kMaxObjectBytes) {
    return fail(ErrorCode::kInvalidArgument, "allocate an object of this size", bytes);
  }
  const std::uint8_t size_class = core_->classes.class_for(bytes);
  return size_class == kSpanClass ? alloc_span(bytes, at_limit)
                                  : alloc_from_pool(size_class, bytes, at_limit);
}

Result<ObjectPtr> HeapThread::alloc_from_pool(std::uint8_t size_class, std::uint32_t bytes,
                                              AtLimit at_limit) {
  Bin& bin = record_->bin(size_class);
  for (int relief = 0;; ++relief) {
    auto object = core_->pools[size_class]->allocate(*record_, bin, bytes);
    if (object) bin.allocated.add(1);
    if (object || object.error() != ErrorCode::kOutOfMemory) return object;
    // Single slots in frames that are used up come first: they cost no move.
    const bool may_look = at_limit == AtLimit::kRelieve && relief < kReliefs;
    if (may_look && core_->pools[size_class]->offer_leftovers() != 0) continue;
    if (!relieve(at_limit, relief)) return object;
  }
}

Result<ObjectPtr> HeapThread::alloc_span(std::uint32_t bytes, AtLimit at_limit) {
  const SizeClass shape =
      internal::span_shape(static_cast<std::uint32_t>(core_->classes.span_bytes_for(bytes)));
  Result<Frame*> frame = core_->make_frame(kSpanClass, shape);
  for (int relief = 0; !frame; ++relief) {
    if (frame.error() != ErrorCode::kOutOfMemory || !relieve(at_limit, relief)) {
      return std::unexpected(frame.error());
    }
    frame = core_->make_frame(kSpanClass, shape);
  }
  {
    SpinGuard lock((*frame)->lock);
    YONDER_CHECK((*frame)->try_take(0), "a new frame is empty");
    (*frame)->state = FrameState::kFull;
  }
  record_->bins.back().allocated.add(1);
  return core_->place(FreeSlot::of(**frame, 0), kSpanClass, bytes, record_->random);
}

bool HeapThread::relieve(AtLimit at_limit, int relief) {
  if (at_limit == AtLimit::kFail || relief >= kReliefs) return false;
  for (const auto& pool : core_->pools) pool->trim();
  // Retired frames count as used until slow readers have left them.
  if (const std::uint64_t before = core_->reclaimer.waiting_bytes(); before != 0) {
    for (int i = 0; i < kReclaimPolls && !core_->reclaimer.poll(); ++i) std::this_thread::yield();
    if (core_->reclaimer.waiting_bytes() < before) return true;
  }
  return core_->compactor->relieve() || (core_->options.on_shortage && core_->options.on_shortage());
}

// Makes the object ours: state writing. The place is valid in the caller's section.
Result<Place> HeapThread::lock_object(ObjectPtr object) {
  Place at_hint;
  if (internal::try_lock_at_hint(*core_, object, at_hint)) [[likely]]
    return at_hint;
  return lock_elsewhere(object);
}

// The object was displaced, is held, or does not exist.
Result<Place> HeapThread::lock_elsewhere(ObjectPtr object) {
  YONDER_TRY_VOID(internal::check_pointer(*core_, object));
  internal::Waiter waiter(core_->clock, core_->options.longest_wait);
  for (;;) {
    YONDER_TRY(place, internal::locate(*core_, *record_, object));
    if (place.word.state() == SlotState::kLive) {
      std::uint64_t expected = place.word.bits();
      // acquire: pairs with the release that left this word; the payload is complete.
      if (place.frame->header(place.slot)
              .compare_exchange_strong(expected, place.word.with_state(SlotState::kWriting).bits(),
                                       std::memory_order_acquire, std::memory_order_relaxed)) {
        return place;
      }
    }
    if (!waiter.pause()) return fail(ErrorCode::kDeadlineExceeded, "wait for an object that is in use");
  }
}

// The common way: the object is where its pointer says, at home, held by nobody, and
// its slot stays with the thread for the next allocation. Looks at everything first,
// so that one exchange frees it. False: nothing was done.
bool HeapThread::free_at_hint(ObjectPtr object) {
  Section section(*record_, internal::kUsesBins);
  BlockEntry entry;
  std::byte* slot = internal::slot_at_hint(*core_, object, entry);
  if (slot == nullptr) return false;
  const std::atomic_ref<std::uint64_t> header(*reinterpret_cast<std::uint64_t*>(slot));
  // relaxed: the exchange decides.
  const HeaderWord word(header.load(std::memory_order_relaxed));
  if (!word.names(object.home(), object.id()) || word.state() != SlotState::kLive) return false;
  const internal::ClassFacts& facts = core_->facts[object.size_class()];
  const Frame* frame = core_->frame_at(entry.frame());
  Bin& bin = record_->bins[object.size_class()];  // Not that of spans: they are not found by a hint.
  // A block does not leave a frame and come back in one section (R1, R4 of
  // compaction_run.h), so what is at home now is at home when the exchange succeeds.
  // acquire: R3 of thread_record.h.
  if (frame == nullptr ||
      frame->block_of(object.slot(), facts.block_shift, facts.blocks_offset) != object.home() ||
      !bin.open.load(std::memory_order_acquire) || !bin.can_keep(*frame, object.slot())) {
    return false;
  }
  std::uint64_t expected = word.bits();
  // acq_rel: pairs with the release that left this word and with the acquire of who
  // looks for the object later.
  if (!header.compare_exchange_strong(expected, word.freed().bits(), std::memory_order_acq_rel,
                                      std::memory_order_relaxed)) {
    return false;
  }
  bin.keep(FreeSlot(slot, object.home(), object.slot()));
  bin.freed.add(1);
  return true;
}

Result<void> HeapThread::free_elsewhere(ObjectPtr object) {
  FrameId frame_id;
  bool worth_a_look = false;
  {
    Section section(*record_);
    YONDER_TRY(place, lock_object(object));
    Frame& frame = *place.frame;
    frame_id = frame.id;
    // While we hold the object its block cannot leave: the answer is stable.
    const bool is_alien = frame.block_of(place.slot) != place.word.home();
    // release: pairs with the acquire of the next owner of the slot.
    frame.header(place.slot).store(place.word.freed().bits(), std::memory_order_release);
    {
      SpinGuard lock(frame.lock);
      frame.put(place.slot);
      worth_a_look = frame.free_count == frame.slots() ||
                     (frame.state == FrameState::kFull && frame.free_count >= frame.worth_listing());
    }
    if (is_alien) core_->forget_alien(place.word);
  }
  if (object.size_class() == kSpanClass) {
    free_span(frame_id);
  } else {
    record_->bin(object.size_class()).freed.add(1);
    if (worth_a_look) core_->pools[object.size_class()]->after_free(frame_id);
  }
  return {};
}

// The object is gone, so only the thread that freed it comes here.
void HeapThread::free_span(FrameId frame_id) {
  record_->bins.back().freed.add(1);
  core_->reclaimer.retire(core_->unmake_frame(*core_->frame_at(frame_id)));
}

Result<ObjectPtr> HeapThread::find(ObjectPtr object) {
  YONDER_TRY_VOID(internal::check_pointer(*core_, object));
  Section section(*record_);
  YONDER_TRY(place, internal::locate(*core_, *record_, object));
  note_correction(object, place.slot);
  return object;
}

Result<ObjectPtr> HeapThread::release_ptr(ObjectPtr object) {
  Section section(*record_);
  YONDER_TRY(place, lock_object(object));
  Frame& frame = *place.frame;
  HeaderWord word = place.word;
  {
    SpinGuard lock(frame.lock);
    // A frame that the compactor has gets no new members: it has counted them.
    const BlockId block = frame.block_of(place.slot);
    if (!frame.is_compacted() && block != word.home()) {
      const ObjectId id = core_->new_id(word, place.slot, frame.shape->block_shift, record_->random);
      word = word.renamed(block, id);
    }
    if (word.home() != place.word.home()) core_->layout_of(frame).reseal(frame.slot(place.slot), word);
    // release: pairs with the acquire of whoever reads the header.
    frame.header(place.slot).store(word.bits(), std::memory_order_release);
  }
  if (word.home() != place.word.home()) core_->forget_alien(place.word);
  return ObjectPtr({.home = word.home(),
                    .id = word.id(),
                    .slot = place.slot,
                    .size = object.size(),
                    .size_class = object.size_class(),
                    .node = object.node(),
                    .life = object.life()});
}

void HeapThread::note_correction(ObjectPtr& object, std::uint32_t slot) {
  if (object.slot() == slot) return;
  object = object.with_slot(slot);
  record_->corrections.add(1);
}

}  // namespace yonder::node
