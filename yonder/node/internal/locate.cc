#include "yonder/node/internal/locate.h"

namespace yonder::node::internal {
namespace {

constexpr std::unexpected<Error> no_such_object() { return fail(ErrorCode::kNoSuchObject, "find an object"); }

// Looks at one slot, and where its moved word leads.
bool look(const HeapCore& core, Frame& frame, std::uint32_t slot, ObjectPtr object, Place& place) {
  const HeaderWord word = frame.load_header(slot);
  if (word.names(object.home(), object.id())) {
    place = {.frame = &frame, .slot = slot, .word = word};
    return true;
  }
  if (!word.is_moved()) return false;
  Frame* next = core.frame_at(word.frame());  // L1
  if (next == nullptr || word.slot() >= next->slots()) return false;
  const HeaderWord there = next->load_header(word.slot());
  if (!there.names(object.home(), object.id())) return false;
  place = {.frame = next, .slot = word.slot(), .word = there};
  return true;
}

bool search(const HeapCore& core, const ThreadRecord& asker, Frame& frame, ObjectPtr object, Place& place) {
  if (object.slot() < frame.slots() && look(core, frame, object.slot(), object, place)) return true;
  const auto slot_known = core.displaced_slot(asker, object);
  if (slot_known && *slot_known < frame.slots() && look(core, frame, *slot_known, object, place)) return true;
  // From the hint on, in a circle: a displaced object is put into the next free slot. L2
  const std::uint32_t start = object.slot() < frame.slots() ? object.slot() : 0;
  for (std::uint32_t slot = start; slot < frame.slots(); ++slot) {
    if (look(core, frame, slot, object, place)) return true;
  }
  for (std::uint32_t slot = 0; slot < start; ++slot) {
    if (look(core, frame, slot, object, place)) return true;
  }
  return false;
}

}  // namespace

Result<void> check_pointer(const HeapCore& core, ObjectPtr object) {
  if (!object.is_well_formed()) [[unlikely]]
    return fail(ErrorCode::kInvalidArgument, "object pointer");
  if (object.node() != core.options.node) [[unlikely]]
    return fail(ErrorCode::kForeignPointer, "object pointer", object.node().value());
  if (object.life() != core.tag) [[unlikely]]
    return no_such_object();  // It was lost.
  if (object.size_class() == kSpanClass) return {};
  if (object.size_class() >= core.classes.count() ||
      object.size() > core.layouts[object.size_class()].capacity()) [[unlikely]]
    return no_such_object();
  return {};
}

Result<Place> locate(const HeapCore& core, const ThreadRecord& asker, ObjectPtr object) {
  // Every repetition follows a switch of the block, and a section meets few.
  for (;;) {
    const BlockEntry entry = core.table->lookup(object.home());
    if (!entry.valid() || entry.size_class() != object.size_class()) return no_such_object();
    Frame* frame = core.frame_at(entry.frame());
    Place place;
    if (frame != nullptr && search(core, asker, *frame, object, place)) {
      if (object.size_class() == kSpanClass && object.size() > core.layout_of(*place.frame).capacity()) {
        return no_such_object();
      }
      return place;
    }
    if (core.table->lookup(object.home()) == entry) return no_such_object();
  }
}

}  // namespace yonder::node::internal
