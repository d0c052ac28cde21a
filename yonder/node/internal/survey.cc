#include "yonder/node/internal/survey.h"

#include <algorithm>
#include <unordered_set>

namespace yonder::node::internal {
namespace {

std::unexpected<Error> corrupt(const char* what, std::uint64_t where) {
  return fail(ErrorCode::kCorrupt, what, static_cast<std::int64_t>(where));
}

std::uint64_t identity_of(HeaderWord word) {
  return std::uint64_t{word.home().value()} << kObjectIdBits | word.id().value();
}

}  // namespace

HeaderWord Survey::word_at(const FoundSlot& at) const {
  return HeaderWord(std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(slot_at(at)))
                        .load(std::memory_order_acquire));
}

Result<void> Survey::run() {
  YONDER_TRY_VOID(read_table());
  YONDER_TRY_VOID(check_extents());
  for (auto& [id, frame] : frames) YONDER_TRY_VOID(read_frame(id, frame));
  YONDER_TRY_VOID(explain_strays());
  std::ranges::sort(closed_objects_);
  if (std::ranges::adjacent_find(closed_objects_) != closed_objects_.end())
    return corrupt("adopt memory: two objects with one identity", 0);
  for (const auto& [block, objects] : closed) {
    if (objects > frames.at(core_.table->lookup(block).frame()).shape.block_slots)
      return corrupt("adopt memory: a block with more objects than slots", block.value());
  }
  find_stillborn();
  return {};
}

// ---------------------------------------------------------------- blocks and frames

Result<void> Survey::read_table() {
  const os::Memfd& file = core_.table->memfd();
  for (std::size_t offset = 0; offset < file.size();) {
    YONDER_TRY(range, file.next_data(offset));
    offset = range.offset + range.length;
    const std::size_t end = std::min<std::size_t>(offset / sizeof(std::uint64_t), core_.table->capacity());
    for (std::size_t id = range.offset / sizeof(std::uint64_t); id < end; ++id) {
      const BlockId block(static_cast<std::uint32_t>(id));
      const BlockEntry entry = core_.table->lookup(block);
      if (entry.valid()) YONDER_TRY_VOID(add_entry(block, entry));
    }
  }
  return {};
}

Result<void> Survey::add_entry(BlockId block, BlockEntry entry) {
  const bool is_span = entry.size_class() == kSpanClass;
  if (block == BlockId(0) || (!is_span && entry.size_class() >= core_.classes.count()))
    return corrupt("adopt memory: a block's class", block.value());
  if (entry.frame().value() >= core_.store->unit_count())
    return corrupt("adopt memory: a block's frame", block.value());
  FoundFrame found{.size_class = entry.size_class()};
  if (is_span) {
    const std::uint64_t bytes = std::uint64_t{core_.record->span(entry.frame())} * kUnitBytes;
    // Its length is noted before the entry and erased after it: one without is of a
    // frame that was given back.
    if (bytes == 0) {
      stillborn.push_back(block);
      return {};
    }
    if (bytes > core_.store->superblock_bytes()) return corrupt("adopt memory: a span", block.value());
    found.shape = span_shape(static_cast<std::uint32_t>(bytes));
  } else {
    found.shape = core_.classes[entry.size_class()];
  }
  const auto [at, is_new] = frames.emplace(entry.frame(), std::move(found));
  FoundFrame& frame = at->second;
  if (is_new) frame.groups.resize(frame.shape.blocks);
  if (frame.size_class != entry.size_class())
    return corrupt("adopt memory: a frame of two classes", entry.frame().value());
  if (!entry.is_open()) {
    closed.emplace(block, 0);
    return {};
  }
  if (block.value() >= core_.table->options().natural) {
    spare_open_.push_back(block);
    return {};
  }
  const std::uint64_t group =
      block.value() - std::uint64_t{entry.frame().value()} * BlockTable::kNaturalPerUnit;
  if (group >= frame.groups.size()) return corrupt("adopt memory: a block's natural id", block.value());
  frame.groups[group] = block;
  return {};
}

Result<void> Survey::check_extents() const {
  std::vector<std::pair<FrameId, std::uint64_t>> all;
  for (const auto& [id, frame] : frames) all.emplace_back(id, frame.shape.frame_bytes);
  return core_.store->check_claim(all);
}

// ---------------------------------------------------------------- objects

Result<void> Survey::read_frame(FrameId id, FoundFrame& frame) {
  for (std::uint32_t slot = 0; slot < frame.shape.slots; ++slot) {
    const FoundSlot at{.frame = id, .slot = slot};
    const HeaderWord word = word_at(at);
    if (word.is_moved()) {
      moved.push_back(at);
      moved_targets_.emplace(FoundSlot{.frame = word.frame(), .slot = word.slot()}, id);
    } else if (!word.is_free()) {
      YONDER_TRY_VOID(read_object(at, frame, word));
    }
  }
  return {};
}

Result<void> Survey::read_object(const FoundSlot& at, FoundFrame& frame, HeaderWord word) {
  const BlockEntry entry = core_.table->lookup(word.home());
  if (word.id().value() == 0 || !entry.valid() || entry.size_class() != frame.size_class)
    return corrupt("adopt memory: an object's home", word.home().value());
  ++frame.objects;
  if (word.state() == SlotState::kWriting) writing.push_back(at);
  if (entry.frame() != at.frame) {
    strays_.push_back(at);
    return {};
  }
  if (word.state() == SlotState::kMoving) {
    moving.push_back(at);
    moving_identities_.emplace(identity_of(word), at.frame);
  }
  if (entry.is_open()) return read_native(at, frame, word);
  ++closed[word.home()];
  closed_objects_.push_back(identity_of(word));
  return {};
}

// An open block's objects sit in the slots they were born in, all in one group; their
// ids then differ because their slots do.
Result<void> Survey::read_native(const FoundSlot& at, FoundFrame& frame, HeaderWord word) {
  BlockId& group = frame.groups[at.slot >> frame.shape.block_shift];
  if (group == BlockId(0) && word.home().value() >= core_.table->options().natural) {
    if (std::ranges::find(frame.groups, word.home()) != frame.groups.end())
      return corrupt("adopt memory: a block in two groups", word.home().value());
    group = word.home();
  }
  const std::uint32_t mask = (1u << frame.shape.block_shift) - 1;
  if (group != word.home() || (word.id().value() & mask) != (at.slot & mask))
    return corrupt("adopt memory: an object of an open block, not in its slot", word.home().value());
  return {};
}

// ---------------------------------------------------------------- moves under way

Result<void> Survey::explain_strays() {
  for (const FoundSlot& stray : strays_) YONDER_TRY_VOID(explain(stray));
  return check_half_moved();
}

// Either its original is still there, or the original's slot says that it went here.
Result<void> Survey::explain(const FoundSlot& stray) {
  const HeaderWord word = word_at(stray);
  const FrameId source = core_.table->lookup(word.home()).frame();
  const auto original = moving_identities_.find(identity_of(word));
  if (original != moving_identities_.end() && original->second == source &&
      word.state() == SlotState::kMoving) {
    copies.push_back(stray);
    return {};
  }
  const auto target = moved_targets_.find(stray);
  if (target == moved_targets_.end() || target->second != source)
    return corrupt("adopt memory: an object where its block is not", word.home().value());
  const auto known = std::ranges::find(half_moved, word.home(), &HalfMovedBlock::block);
  if (known == half_moved.end()) {
    half_moved.push_back({.block = word.home(), .to = stray.frame, .arrived = {stray}});
  } else if (known->to == stray.frame) {
    known->arrived.push_back(stray);
  } else {
    return corrupt("adopt memory: a block in three frames", word.home().value());
  }
  return {};
}

// The rest of such a block has room where it goes: its slots were set aside. And no
// object of it is in both frames.
Result<void> Survey::check_half_moved() const {
  for (const HalfMovedBlock& half : half_moved) {
    std::unordered_set<std::uint16_t> ids;
    for (const FoundSlot& at : half.arrived) {
      if (!ids.insert(word_at(at).id().value()).second)
        return corrupt("adopt memory: two objects with one identity", half.block.value());
    }
    const FrameId from = core_.table->lookup(half.block).frame();
    for (std::uint32_t slot = 0; slot < frames.at(from).shape.slots; ++slot) {
      const HeaderWord word = word_at({.frame = from, .slot = slot});
      if (word.is_moved() || word.is_free() || word.home() != half.block) continue;
      if (!ids.insert(word.id().value()).second)
        return corrupt("adopt memory: two objects with one identity", half.block.value());
    }
    const FoundFrame& to = frames.at(half.to);
    const auto undone = static_cast<std::size_t>(std::ranges::count(copies, half.to, &FoundSlot::frame));
    if (ids.size() > to.shape.block_slots ||
        ids.size() - half.arrived.size() > to.shape.slots - to.objects + undone)
      return corrupt("adopt memory: no room for the rest of a block", half.block.value());
  }
  return {};
}

// Entries without objects: of spare ids that have no group, of closed blocks whose last
// object went as the process ended, and of whole frames.
void Survey::find_stillborn() {
  const auto is_half_moved = [&](BlockId block) {
    return std::ranges::find(half_moved, block, &HalfMovedBlock::block) != half_moved.end();
  };
  for (const BlockId block : spare_open_) {
    const FoundFrame& frame = frames.at(core_.table->lookup(block).frame());
    const bool has_group = std::ranges::find(frame.groups, block) != frame.groups.end();
    // One that has left its frame but for the switch has no object there, either.
    if (!has_group && !is_half_moved(block)) stillborn.push_back(block);
  }
  for (const auto& [block, objects] : closed) {
    if (objects == 0 && !is_half_moved(block)) stillborn.push_back(block);
  }
}

}  // namespace yonder::node::internal
