// HeapThread: reading and writing objects.
#include <algorithm>
#include <atomic>

#include "yonder/node/heap.h"
#include "yonder/node/internal/heap_core.h"
#include "yonder/node/internal/locate.h"
#include "yonder/node/internal/waiter.h"
#include "yonder/node/ticks.h"

namespace yonder::node {

using internal::Frame;
using internal::HeapCore;
using internal::Place;
using internal::Section;

namespace {

std::atomic_ref<std::uint64_t> header_at(std::byte* slot) {
  return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(slot));
}

// What H2 of header_word.h says of a copy.
enum class Copy : std::uint8_t {
  kProven,   // the object's value at the moment of the first look
  kChanged,  // made while the object was written or moved
  kSlow,     // made in a time in which versions can go full circle: it proves nothing
};

// A copy of the payload that began at `since`; the first look found `before`, readable.
Copy copy_payload(const SlotLayout& layout, std::byte* slot, HeaderWord before, std::uint64_t since,
                  Duration longest, std::span<std::byte> out) {
  if (before.is_blank()) [[unlikely]] {
    std::ranges::fill(out, std::byte{0});
    return Copy::kProven;
  }
  layout.load(slot, out);
  // The copy comes before the second look: pairs with the release with which a
  // writer's header leaves state live, before it touches the payload.
  std::atomic_thread_fence(std::memory_order_acquire);
  const HeaderWord after(header_at(slot).load(std::memory_order_relaxed));
  // Nanoseconds as ticks: ticks.h says why that is on the safe side.
  if (ticks() - since >= static_cast<std::uint64_t>(longest.count())) [[unlikely]]
    return Copy::kSlow;
  return proves_copy(before, after) ? Copy::kProven : Copy::kChanged;
}

}  // namespace

Result<ObjectVersion> HeapThread::read(ObjectPtr& object, std::span<std::byte> out) {
  if (internal::is_plausible(*core_, object) && out.size() <= object.size()) [[likely]] {
    const internal::ClassFacts& facts = core_->facts[object.size_class()];
    const std::uint64_t offset = std::uint64_t{object.slot()} * facts.slot_bytes;
    // Where the object is if its block never moved: on its way while we ask.
    __builtin_prefetch(
        core_->store->address(BlockTable::guess(object.home(), object.slot() >> facts.block_shift)) + offset);
    Section section(*record_);
    const std::uint64_t start = ticks();
    const BlockEntry entry = core_->table->lookup(object.home());
    if (entry.valid() && entry.size_class() == object.size_class() && object.slot() < facts.slots)
        [[likely]] {
      std::byte* slot = core_->block_address(object.home(), entry) + offset;
      const HeaderWord before(header_at(slot).load(std::memory_order_acquire));
      if (before.names(object.home(), object.id()) && before.is_readable() &&
          copy_payload(core_->layouts[object.size_class()], slot, before, start, core_->options.longest_copy,
                       out) == Copy::kProven) [[likely]] {
        return ObjectVersion(before.version());
      }
    }
  }
  return read_elsewhere(object, out);
}

// The object was displaced, is being written, is large or slow to copy, or does not exist.
Result<ObjectVersion> HeapThread::read_elsewhere(ObjectPtr& object, std::span<std::byte> out) {
  YONDER_TRY_VOID(internal::check_pointer(*core_, object));
  if (out.size() > object.size()) {
    return fail(ErrorCode::kOutOfBounds, "read more than the object has", object.size());
  }
  if (out.size() > kMaxOptimisticBytes) return read_locked(object, out);
  const Result<std::optional<ObjectVersion>> version = read_optimistically(object, out);
  if (!version) return std::unexpected(version.error());
  return *version ? Result<ObjectVersion>(**version) : read_locked(object, out);
}

// Copies until a copy is proven. Nothing, if one took too long: on a machine that is too
// slow for this object, or too busy, the next one would as well.
Result<std::optional<ObjectVersion>> HeapThread::read_optimistically(ObjectPtr& object,
                                                                     std::span<std::byte> out) {
  internal::Waiter waiter(core_->clock, core_->options.longest_wait);
  Section section(*record_);
  for (;;) {
    const std::uint64_t start = ticks();
    YONDER_TRY(place, internal::locate(*core_, *record_, object));
    const Copy copy = place.word.is_readable()
                          ? copy_payload(core_->layout_of(*place.frame), place.frame->slot(place.slot),
                                         place.word, start, core_->options.longest_copy, out)
                          : Copy::kChanged;
    if (copy == Copy::kSlow) return std::nullopt;
    if (copy == Copy::kProven) {
      note_correction(object, place.slot);
      return ObjectVersion(place.word.version());
    }
    if (!waiter.pause()) return fail(ErrorCode::kDeadlineExceeded, "read an object that is being written");
  }
}

// Holds the object in state moving, in which readers go on and writers wait: the
// copy may take as long as it likes.
Result<ObjectVersion> HeapThread::read_locked(ObjectPtr& object, std::span<std::byte> out) {
  Section section(*record_);
  YONDER_TRY(place, lock_object(object));
  Frame& frame = *place.frame;
  // relaxed: nothing was written since the lock was taken.
  frame.header(place.slot).store(place.word.with_state(SlotState::kMoving).bits(), std::memory_order_relaxed);
  if (place.word.is_blank())
    std::ranges::fill(out, std::byte{0});
  else
    core_->layout_of(frame).load(frame.slot(place.slot), out);
  // release: our copy is over before a writer may begin.
  frame.header(place.slot).store(place.word.bits(), std::memory_order_release);
  note_correction(object, place.slot);
  return ObjectVersion(place.word.version());
}

Result<ObjectVersion> HeapThread::write(ObjectPtr& object, std::span<const std::byte> data) {
  return write_object(object, nullptr, data);
}

Result<ObjectVersion> HeapThread::write_if_version(ObjectPtr& object, ObjectVersion expected,
                                                   std::span<const std::byte> data) {
  return write_object(object, &expected, data);
}

Result<ObjectVersion> HeapThread::write_object(ObjectPtr& object, const ObjectVersion* expected,
                                               std::span<const std::byte> data) {
  if (data.size() > object.size()) {
    YONDER_TRY_VOID(internal::check_pointer(*core_, object));
    return fail(ErrorCode::kOutOfBounds, "write more than the object has", object.size());
  }
  Section section(*record_);
  YONDER_TRY(place, lock_object(object));
  Frame& frame = *place.frame;
  note_correction(object, place.slot);
  if (expected != nullptr && expected->value() != place.word.version()) {
    // release: keeps the order of the headers; nothing was changed.
    frame.header(place.slot).store(place.word.bits(), std::memory_order_release);
    return fail(ErrorCode::kVersionMismatch, "write if the version is unchanged", place.word.version());
  }
  // The payload changes only after the header says so: pairs with the acquire
  // fence in copy_is_proven().
  std::atomic_thread_fence(std::memory_order_release);
  const HeaderWord word = place.word.written();
  const SlotLayout layout = core_->layout_of(frame);
  if (record_->journal) {
    record_->journal->begin({.word = word, .frame = frame.id, .slot = place.slot, .data = data});
  }
  if (place.word.is_blank())
    layout.store_first(frame.slot(place.slot), word, data);
  else
    layout.store(frame.slot(place.slot), word, data);
  // release: pairs with the acquire of whoever reads the header; the payload is complete.
  frame.header(place.slot).store(word.bits(), std::memory_order_release);
  if (record_->journal) record_->journal->end();
  return ObjectVersion(word.version());
}

}  // namespace yonder::node
