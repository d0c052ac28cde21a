#include "yonder/node/internal/adoption.h"

#include <algorithm>
#include <map>
#include <set>

#include "yonder/base/check.h"

namespace yonder::node::internal {
namespace {}  // namespace

Result<AdoptionReport> Adoption::run() {
  YONDER_TRY_VOID(survey_.run());
  YONDER_TRY_VOID(repair());
  YONDER_TRY_VOID(rebuild());
  return report_;
}

SlotLayout Adoption::layout_at(const FoundSlot& at) const {
  return SlotLayout(core_.classes.validator(), found_at(at).shape.slot_bytes);
}

void Adoption::store_word(const FoundSlot& at, HeaderWord word) const {
  // release: in the order of a running heap, for the sake of whoever comes next (J1 to
  // J6 of write_journal.h) and of one-sided readers who have the memory mapped still.
  std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(survey_.slot_at(at)))
      .store(word.bits(), std::memory_order_release);
}

// ---------------------------------------------------------------- repair

Result<void> Adoption::repair() {
  finish_writes();
  settle_moves();
  for (const HalfMovedBlock& half : survey_.half_moved) YONDER_TRY_VOID(finish_block(half));
  for (const FoundSlot& at : survey_.moved) store_word(at, HeaderWord::left());
  return {};
}

void Adoption::finish_writes() {
  std::map<FoundSlot, WriteJournal::Note> notes;
  for (std::uint32_t i = 0; i < journal_.lane_count(); ++i) {
    const WriteJournal::Note note = journal_.note(i);
    if (!note.word.is_free()) notes.emplace(FoundSlot{.frame = note.frame, .slot = note.slot}, note);
  }
  for (const FoundSlot& at : survey_.writing) {
    const HeaderWord word = survey_.word_at(at);
    const SlotLayout layout = layout_at(at);
    const auto note = notes.find(at);
    if (note != notes.end() && note->second.word == word.written() &&
        note->second.data.size() <= layout.capacity()) {
      if (word.is_blank())
        layout.store_first(survey_.slot_at(at), word.written(), note->second.data);
      else
        layout.store(survey_.slot_at(at), word.written(), note->second.data);
      store_word(at, word.written());
      ++report_.writes_finished;
    } else {
      // It may have been held by a release, whose seal is of the new identity.
      layout.reseal(survey_.slot_at(at), word.with_state(SlotState::kLive));
      store_word(at, word.with_state(SlotState::kLive));
      ++report_.holds_ended;
    }
  }
}

void Adoption::settle_moves() {
  // The copy first: a source that is live and has a copy would be two objects.
  for (const FoundSlot& at : survey_.copies) {
    store_word(at, survey_.word_at(at).freed());
    --survey_.frames.at(at.frame).objects;
    ++report_.moves_undone;
  }
  if (!survey_.moving.empty()) distrust_fresh_slots();
  for (const FoundSlot& at : survey_.moving) {
    store_word(at, survey_.word_at(at).with_state(SlotState::kLive));
    ++report_.holds_ended;
  }
  for (const HalfMovedBlock& half : survey_.half_moved) {
    for (const FoundSlot& at : half.arrived) {
      store_word(at, survey_.word_at(at).with_state(SlotState::kLive));
    }
  }
}

void Adoption::distrust_fresh_slots() {
  std::set<std::uint8_t> classes;
  for (const FoundSlot& at : survey_.moving) classes.insert(found_at(at).size_class);
  for (const auto& [id, frame] : survey_.frames) {
    if (!classes.contains(frame.size_class)) continue;
    for (std::uint32_t slot = 0; slot < frame.shape.slots; ++slot) {
      const FoundSlot at{.frame = id, .slot = slot};
      if (survey_.word_at(at).never_used()) store_word(at, HeaderWord::left());
    }
  }
}

// R3 of compaction_run.h: what is left of the block follows, then its entry is switched.
Result<void> Adoption::finish_block(const HalfMovedBlock& half) {
  const BlockEntry entry = core_.table->lookup(half.block);
  FoundFrame& source = survey_.frames.at(entry.frame());
  FoundFrame& destination = survey_.frames.at(half.to);
  std::uint32_t objects = static_cast<std::uint32_t>(half.arrived.size());
  std::uint32_t free_slot = 0;
  for (std::uint32_t slot = 0; slot < source.shape.slots; ++slot) {
    const FoundSlot from{.frame = entry.frame(), .slot = slot};
    const HeaderWord word = survey_.word_at(from);
    if (word.is_moved() || word.is_free() || word.home() != half.block) continue;
    while (!survey_.word_at({.frame = half.to, .slot = free_slot}).is_free()) ++free_slot;
    move_object(from, {.frame = half.to, .slot = free_slot});
    survey_.moved.push_back(from);
    --source.objects;
    ++destination.objects;
    ++objects;
  }
  // If the system refuses that, whoever comes next finds the block as it is now.
  YONDER_TRY_VOID(core_.table->publish(half.block, half.to, entry.size_class()));
  std::ranges::replace(source.groups, half.block, BlockId(0));
  survey_.closed[half.block] = objects;
  ++report_.blocks_finished;
  return {};
}

// As CompactionRun::move_object(), without anybody to race with.
void Adoption::move_object(const FoundSlot& from, const FoundSlot& to) {
  const HeaderWord word = survey_.word_at(from);
  store_word(from, word.with_state(SlotState::kMoving));
  if (!word.is_blank()) layout_at(from).move(survey_.slot_at(from), survey_.slot_at(to), word);
  store_word(to, word.with_state(SlotState::kMoving));
  store_word(from, HeaderWord::moved_to(to.frame, to.slot));
  store_word(to, word);
}

// ---------------------------------------------------------------- rebuild

Result<void> Adoption::rebuild() {
  for (const BlockId block : survey_.stillborn) core_.table->discard(block);
  std::vector<std::pair<FrameId, std::uint64_t>> used;
  for (auto at = survey_.frames.begin(); at != survey_.frames.end();) {
    const auto& [id, frame] = *at;
    if (frame.objects != 0) {
      used.emplace_back(id, frame.shape.frame_bytes);
      ++at;
      continue;
    }
    for (const BlockId block : frame.groups) {
      if (block != BlockId(0)) core_.table->discard(block);
    }
    if (frame.size_class == kSpanClass) core_.record->set_span(id, 0);
    at = survey_.frames.erase(at);
  }
  YONDER_TRY_VOID(core_.store->claim(std::move(used)));
  YONDER_TRY_VOID(restore_blocks());
  // What is here now was allocated by somebody: the first thread's books begin with it.
  YONDER_TRY(books, core_.threads.add());
  core_.threads.remove(*books);
  for (const auto& [id, frame] : survey_.frames) YONDER_TRY_VOID(restore_frame(id, frame, *books));
  return {};
}

Result<void> Adoption::restore_blocks() {
  for (const auto& [id, frame] : survey_.frames) {
    for (const BlockId block : frame.groups) {
      if (block != BlockId(0)) YONDER_TRY_VOID(core_.table->restore(block, 0));
    }
  }
  for (const auto& [block, objects] : survey_.closed) {
    if (objects != 0) YONDER_TRY_VOID(core_.table->restore(block, objects));
  }
  core_.table->finish_restoring();
  return {};
}

Result<void> Adoption::restore_frame(FrameId id, const FoundFrame& found, ThreadRecord& books) {
  const bool is_span = found.size_class == kSpanClass;
  const SizeClass& shape = is_span ? found.shape : core_.classes[found.size_class];
  FramePtr frame = Frame::create(id, core_.store->address(id), found.size_class, shape);
  for (std::uint32_t group = 0; group < shape.blocks; ++group) {
    BlockId block = found.groups[group];
    if (block == BlockId(0)) {
      YONDER_TRY(opened, core_.open_block(id, group, found.size_class, shape));
      block = opened;
    }
    frame->blocks()[group].store(block.value(), std::memory_order_relaxed);
  }
  restore_slots(*frame);
  core_.enter_frame(*frame);
  if (is_span) {
    frame->state = FrameState::kFull;
  } else {
    core_.pools[found.size_class]->adopt(*frame);
  }
  (void)frame.release();  // The pool's, or the map's.
  ++report_.frames;
  report_.objects += found.objects;
  books.bin(found.size_class).allocated.add(found.objects);
  return {};
}

void Adoption::restore_slots(Frame& frame) {
  SpinGuard lock(frame.lock);
  for (std::uint32_t slot = 0; slot < frame.slots(); ++slot) {
    const HeaderWord word = frame.load_header(slot);
    if (word.is_free()) continue;
    YONDER_CHECK(frame.try_take(slot), "a new frame is empty");
    if (word.home() != frame.block_of(slot)) core_.note_displaced(word.home(), word.id(), slot);
  }
}

}  // namespace yonder::node::internal
