// Heap::check_invariants(): everything that must be true when no operation runs.
#include <bit>
#include <unordered_map>
#include <unordered_set>

#include "yonder/base/check.h"
#include "yonder/node/heap.h"
#include "yonder/node/internal/heap_core.h"

namespace yonder::node {
namespace {

using internal::Bin;
using internal::Frame;
using internal::FrameState;
using internal::HeapCore;
using internal::SpinGuard;
using internal::ThreadRecord;

class Checker {
 public:
  explicit Checker(const HeapCore& core) : core_(core) {
    note_bins();
    for (const BlockId block : core_.compactor->held_blocks()) held_.insert(block.value());
  }

  void run() {
    for (std::size_t i = 0; i < core_.pools.size(); ++i) {
      live_ = 0;
      core_.pools[i]->visit_frames(0, SIZE_MAX / 2, [&](Frame& frame) {
        YONDER_CHECK(frame.size_class == i, "a frame is in the pool of its class");
        check_frame(frame);
      });
      check_counters(i);
    }
    YONDER_CHECK(kept_.empty(), "threads keep slots of frames only");
    check_spans();
    check_blocks();
    core_.store->check_invariants();
    YONDER_CHECK(frame_bytes_ + core_.reclaimer.waiting_bytes() == core_.store->active_bytes(),
                 "every byte in use is a frame of a pool, a span, or retired");
    check_displaced();
  }

 private:
  // Slots that threads have taken and not used.
  void note_bins() {
    for (const ThreadRecord& record : core_.threads.records()) {
      YONDER_CHECK((record.activity.load() & internal::kActivities) == 0, "no thread is inside an operation");
      for (const Bin& bin : record.bins) {
        for (std::uint32_t i = 0; i < bin.kept; ++i) {
          YONDER_CHECK(kept_.insert(bin.slots[i].memory()).second, "a slot is kept once");
        }
        YONDER_CHECK(bin.open.load() || (bin.kept == 0 && bin.frame == nullptr), "a closed bin is empty");
        if (bin.frame == nullptr) continue;
        YONDER_CHECK(owners_.emplace(bin.frame, &bin).second, "a frame has one owner");
      }
    }
  }

  void check_frame(Frame& frame) {
    frame_bytes_ += frame.frame_bytes();
    YONDER_CHECK(core_.frame_at(frame.id) == &frame, "the frame map names every frame");
    SpinGuard lock(frame.lock);
    const auto owner = owners_.find(&frame);
    YONDER_CHECK((owner != owners_.end()) == (frame.state == FrameState::kOwned), "owned means in a bin");
    check_groups(frame);
    std::uint32_t free_bits = 0;
    std::uint32_t moved = 0;
    for (std::uint32_t slot = 0; slot < frame.slots(); ++slot) {
      const bool bit = ((frame.free_bits()[slot / 64] >> (slot % 64)) & 1) != 0;
      const bool taken = owner != owners_.end() && slot / 64 == owner->second->word &&
                         ((owner->second->bits >> (slot % 64)) & 1) != 0;
      const bool kept = kept_.erase(frame.slot(slot)) != 0;
      YONDER_CHECK(!(taken && kept) && !(kept && frame.is_compacted()), "a slot is free in one place");
      const bool in_bin = taken || kept;
      const HeaderWord word = frame.load_header(slot);
      free_bits += bit ? 1 : 0;
      moved += is_left(frame, word, bit) ? 1 : 0;
      if (is_left(frame, word, bit)) continue;
      YONDER_CHECK(word.is_free() == (bit || in_bin), "I1: free bits and headers agree");
      YONDER_CHECK(!(bit && in_bin), "a slot is free in one place");
      if (!word.is_free()) check_object(frame, slot, word);
    }
    YONDER_CHECK(free_bits == frame.free_count, "I2: the count of free slots");
    YONDER_CHECK(moved == frame.moved_count, "I3: the count of moved slots");
  }

  // A slot of a draining frame whose object went elsewhere.
  static bool is_left(const Frame& frame, HeaderWord word, bool bit) YONDER_REQUIRES(frame.lock) {
    if (frame.state != FrameState::kDraining) {
      YONDER_CHECK(!word.is_moved(), "moved words are in draining frames only");
      return false;
    }
    return word.is_moved() || (word.is_free() && !bit);
  }

  void check_groups(const Frame& frame) YONDER_REQUIRES(frame.lock) {
    for (std::uint32_t group = 0; group < frame.shape->blocks; ++group) {
      const BlockId block(frame.blocks()[group].load());
      if (block == BlockId(0)) {
        YONDER_CHECK(frame.state == FrameState::kDraining, "I4: only draining frames lose blocks");
        continue;
      }
      ++open_blocks_;
      YONDER_CHECK(core_.table->is_open(block), "I4: a group's block is open");
      check_entry(frame, block);
    }
  }

  void check_entry(const Frame& frame, BlockId block) const {
    const BlockEntry entry = core_.table->lookup(block);
    YONDER_CHECK(entry.valid() && entry.frame() == frame.id && entry.size_class() == frame.size_class,
                 "a block maps to the frame that holds its objects");
  }

  void check_object(const Frame& frame, std::uint32_t slot, HeaderWord word) YONDER_REQUIRES(frame.lock) {
    ++live_;
    YONDER_CHECK(word.state() == SlotState::kLive, "no object is held");
    YONDER_CHECK(word.id().value() != 0, "ids are not 0");
    const std::uint64_t identity = std::uint64_t{word.home().value()} << kObjectIdBits | word.id().value();
    YONDER_CHECK(slots_.emplace(identity, slot).second, "identities are unique");
    if (word.home() == frame.block_of(slot)) {
      const std::uint32_t mask = (1u << frame.shape->block_shift) - 1;
      YONDER_CHECK((word.id().value() & mask) == (slot & mask), "ids of open blocks say their slots");
    } else {
      ++away_[word.home().value()];
    }
    // A block that is being moved has objects in two frames: the moved words lead on.
    if (core_.table->is_open(word.home()) && word.home() != frame.block_of(slot)) return;
    if (held_.contains(word.home().value())) return;
    check_entry(frame, word.home());
  }

  void check_counters(std::size_t size_class) const {
    std::uint64_t counted = 0;
    for (const ThreadRecord& record : core_.threads.records()) {
      counted += record.bins[size_class].allocated.get() - record.bins[size_class].freed.get();
    }
    YONDER_CHECK(counted == live_, "allocations minus frees are the live objects");
  }

  void check_spans() {
    live_ = 0;
    const std::uint32_t units = core_.store->unit_count();
    for (std::uint32_t unit = 0; unit < units; ++unit) {
      Frame* frame = core_.frame_at(FrameId(unit));
      if (frame == nullptr || frame->size_class != kSpanClass) continue;
      check_frame(*frame);
    }
    check_counters(core_.classes.count());
  }

  void check_blocks() const {
    for (const auto& [block, count] : away_) {
      const std::uint32_t held = held_.contains(block) ? 1 : 0;
      YONDER_CHECK(core_.table->away_count(BlockId(block)) == count + held, "the census counts who left");
    }
    std::size_t closed = 0;
    for (const std::uint32_t block : held_) closed += away_.contains(block) ? 0 : 1;
    for (const auto& [block, count] : away_) closed += core_.table->is_open(BlockId(block)) ? 0 : 1;
    YONDER_CHECK(core_.table->in_use() == open_blocks_ + closed, "every block id in use has a reason");
  }

  // What correction knows is true, and none of it is about objects that are gone.
  void check_displaced() const {
    const auto check = [&](BlockId home, ObjectId id, std::uint32_t slot) {
      const auto found = slots_.find(std::uint64_t{home.value()} << kObjectIdBits | id.value());
      YONDER_CHECK(found != slots_.end() && found->second == slot, "correction knows where objects are");
    };
    if (core_.options.correction != Correction::kIndex) {
      YONDER_CHECK(core_.displaced.size() == 0, "no index is kept unless asked for");
    }
    core_.displaced.visit(check);
    if (core_.desks != nullptr) core_.desks->visit(check);
  }

  const HeapCore& core_;
  std::unordered_map<const Frame*, const Bin*> owners_;
  std::unordered_set<const std::byte*> kept_;  // Slots that threads keep, not seen in their frames yet.
  std::unordered_map<std::uint64_t, std::uint32_t> slots_;  // By identity.
  std::unordered_map<std::uint32_t, std::uint32_t> away_;
  std::unordered_set<std::uint32_t> held_;  // Blocks whose census counts a compaction run.
  std::uint64_t live_ = 0;
  std::uint64_t frame_bytes_ = 0;
  std::size_t open_blocks_ = 0;
};

}  // namespace

void Heap::check_invariants() const { Checker(*core_).run(); }

}  // namespace yonder::node
