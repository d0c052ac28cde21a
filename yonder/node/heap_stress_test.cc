// Readers, writers, allocators, freers and a compactor that never stops; their
// histories go through the checker.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/node/block_table.h"
#include "yonder/node/heap.h"
#include "yonder/node/slot_layout.h"
#include "yonder/os/steady_clock.h"
#include "yonder/sync/shared_copy.h"
#include "yonder/testing/history.h"
#include "yonder/testing/pattern.h"
#include "yonder/testing/sanitizer.h"
#include "yonder/testing/seed.h"
#include "yonder/testing/shared_cell.h"

namespace yonder::node {
namespace {

using ::yonder::testing::HistoryCall;
using ::yonder::testing::HistoryEvent;
using ::yonder::testing::number_in;
using ::yonder::testing::pattern;

const os::SteadyClock kClock;
std::int64_t now_ns() { return kClock.now().ns(); }

using Cell = ::yonder::testing::SharedCell<ObjectPtr>;

struct Plan {
  HeapOptions options;
  std::size_t cells = 2048;
  std::uint32_t bytes = 40;
  int workers = 3;
  std::uint64_t operations = 100000;  // of all workers, recorded
};

class Stress {
 public:
  explicit Stress(const Plan& plan)
      : plan_(plan), cells_(plan.cells), random_(::yonder::testing::test_seed()) {
    HeapOptions options = plan.options;
    options.seed = ::yonder::testing::test_seed() | 1;
    heap_ = Heap::create(kClock, options).value();
    size_class_ = heap_->classes().class_for(plan.bytes);
    HeapThread thread = heap_->register_thread().value();
    for (Cell& cell : cells_) renew(thread, cell, history_);
  }

  void run() {
    std::vector<std::thread> workers;
    for (int i = 0; i < plan_.workers; ++i)
      workers.emplace_back([this, random = random_.split()] { work(random); });
    std::thread compactor([this] { compact(); });
    for (std::thread& worker : workers) worker.join();
    stop_.store(true);
    compactor.join();
    for (std::size_t i = 0; i < heap_->classes().count(); ++i)
      heap_->compactor().stop(static_cast<std::uint8_t>(i));
    heap_->check_invariants();
  }

  const std::vector<HistoryEvent>& history() const { return history_; }
  std::uint64_t one_sided() const { return one_sided_.load(); }
  CompactionCounters counters() const { return heap_->compactor().counters(); }

 private:
  // A new object in the cell, with its first value; the end of the one before.
  void renew(HeapThread& thread, Cell& cell, std::vector<HistoryEvent>& history) {
    Cell::Content next{.object = thread.alloc(plan_.bytes).value(), .name = next_number_.fetch_add(1)};
    write(thread, next.object, next.name, history);
    const Cell::Content old = cell.exchange(next);
    if (!old.object) return;
    HistoryEvent event{.object = old.name, .call = HistoryCall::kEnd, .begin_ns = now_ns()};
    EXPECT_TRUE(thread.free(old.object));
    event.end_ns = now_ns();
    history.push_back(event);
  }

  void write(HeapThread& thread, ObjectPtr& object, std::uint64_t name, std::vector<HistoryEvent>& history) {
    const std::uint64_t number = next_number_.fetch_add(1);
    const std::vector<std::byte> value = pattern(plan_.bytes, number);
    HistoryEvent event{
        .object = name, .call = HistoryCall::kWrite, .begin_ns = now_ns(), .fingerprint = number};
    const auto version = thread.write(object, value);
    event.end_ns = now_ns();
    finish(event, version, history);
  }

  void read(HeapThread& thread, ObjectPtr& object, std::uint64_t name, std::vector<HistoryEvent>& history) {
    std::vector<std::byte> value(plan_.bytes);
    HistoryEvent event{.object = name, .call = HistoryCall::kRead, .begin_ns = now_ns()};
    const auto version = thread.read(object, value);
    event.end_ns = now_ns();
    event.fingerprint = number_in(value);
    finish(event, version, history);
  }

  // As a one-sided reader does it: through the block table and the superblocks, with
  // the validator's proof, without any help of the heap. An object that was
  // displaced is looked up with find(), as a client would ask the server.
  void read_one_sided(HeapThread& thread, ObjectPtr& object, std::uint64_t name,
                      std::vector<HistoryEvent>& history) {
    std::vector<std::byte> value(plan_.bytes);
    HistoryEvent event{.object = name, .call = HistoryCall::kRead, .begin_ns = now_ns()};
    for (;;) {
      const std::int64_t start = now_ns();
      const auto version = copy_one_sided(object, value);
      if (version && now_ns() - start < kVersionWrapBound.count()) {
        event.end_ns = now_ns();
        event.fingerprint = number_in(value);
        one_sided_.fetch_add(1);
        finish(event, *version, history);
        return;
      }
      const auto found = thread.find(object);
      if (!found) {
        event.end_ns = now_ns();
        finish(event, std::unexpected(found.error()), history);
        return;
      }
      object = *found;
    }
  }

  static HeaderWord word_at(const std::byte* slot) {
    std::array<std::byte, 8> bytes;
    sync::load_words(bytes.data(), slot, 8);
    return std::bit_cast<HeaderWord>(bytes);
  }

  std::optional<ObjectVersion> copy_one_sided(ObjectPtr object, std::span<std::byte> out) const {
    const BlockEntry entry = heap_->blocks().lookup(object.home());
    if (!entry.valid() || entry.size_class() != object.size_class()) return std::nullopt;
    const SizeClass& shape = heap_->classes()[object.size_class()];
    const SlotLayout layout(heap_->classes().validator(), shape.slot_bytes);
    const std::byte* slot = heap_->frames().address(entry.frame()) + object.slot() * shape.slot_bytes;
    const auto phase = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(slot) % kLineBytes);
    // Header, object, header: a copy need not fetch its first word first.
    const HeaderWord before = word_at(slot);
    std::atomic_thread_fence(std::memory_order_acquire);
    std::vector<std::byte> raw(layout.raw_bytes(out.size(), phase));
    sync::load_words(raw.data(), slot, raw.size());
    std::atomic_thread_fence(std::memory_order_acquire);
    const auto word = layout.decode(raw, phase, out);
    if (!word || !word->names(object.home(), object.id()) || !word->is_readable()) return std::nullopt;
    const bool proven = word->is_blank() || layout.validator() != Validator::kReread;
    if (!proven && !proves_copy(before, word_at(slot))) return std::nullopt;
    return ObjectVersion(word->version());
  }

  static void finish(HistoryEvent event, const Result<ObjectVersion>& version,
                     std::vector<HistoryEvent>& history) {
    if (version) {
      event.version = version->value();
    } else {
      EXPECT_EQ(version.error(), ErrorCode::kNoSuchObject);
      event.failed = true;
    }
    history.push_back(event);
  }

  void work(Prng random) {
    HeapThread thread = heap_->register_thread().value();
    std::vector<HistoryEvent> history;
    const std::uint64_t share = plan_.operations / static_cast<std::uint64_t>(plan_.workers);
    std::vector<ObjectPtr> mine;
    while (history.size() < share) {
      Cell& cell = cells_[random.below(cells_.size())];
      auto [object, name] = cell.get();
      const std::uint64_t dice = random.below(100);
      if (dice < 10)
        renew(thread, cell, history);
      else if (dice < 14)
        scatter(thread, random, mine);
      else if (dice < 20)
        heap_->compactor().slice(size_class_, {.blocks = static_cast<std::uint32_t>(1 + random.below(6))});
      else if (dice < 45)
        write(thread, object, name, history);
      else if (dice < 65 && heap_->classes().validator() != Validator::kLines)
        read_one_sided(thread, object, name, history);
      else
        read(thread, object, name, history);
    }
    for (const ObjectPtr object : mine) EXPECT_TRUE(thread.free(object));
    const std::lock_guard lock(mutex_);
    history_.insert(history_.end(), history.begin(), history.end());
  }

  // Allocates neighbours of the cells and frees most of them, so that there is
  // always something to compact and slots are reused all the time.
  void scatter(HeapThread& thread, Prng& random, std::vector<ObjectPtr>& mine) {
    for (int i = 0; i < 40; ++i) mine.push_back(thread.alloc(plan_.bytes).value());
    for (std::size_t i = mine.size(); i-- > 0;) {
      if (random.chance(0.8)) {
        std::swap(mine[i], mine.back());
        EXPECT_TRUE(thread.free(mine.back()));
        mine.pop_back();
      } else if (random.below(4) == 0) {
        const auto moved = thread.release_ptr(mine[i]);
        EXPECT_TRUE(moved);
        mine[i] = *moved;
      }
    }
  }

  void compact() {
    Prng random(::yonder::testing::test_seed() + 2);
    while (!stop_.load()) {
      heap_->compactor().slice(size_class_, {.blocks = static_cast<std::uint32_t>(1 + random.below(30))});
      if (random.below(50) == 0) heap_->compactor().stop(size_class_);
      heap_->reclaim();
    }
  }

  const Plan plan_;
  std::vector<Cell> cells_;
  Prng random_;
  std::unique_ptr<Heap> heap_;
  std::uint8_t size_class_ = 0;
  std::atomic<std::uint64_t> next_number_{1};
  std::atomic<std::uint64_t> one_sided_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::vector<HistoryEvent> history_;
};

void run_and_check(Plan plan) {
  plan.operations = ::yonder::testing::scaled(plan.operations);
  Stress stress(plan);
  stress.run();
  EXPECT_GE(stress.history().size(), plan.operations);
  EXPECT_GT(stress.counters().objects_moved, 0u) << "there was something to survive";
  ::testing::Test::RecordProperty("objects_moved", static_cast<int>(stress.counters().objects_moved));
  EXPECT_EQ(stress.one_sided() > 0, plan.options.classes.validator != Validator::kLines)
      << "lines prove nothing about copies made by a processor";
  const auto violation = ::yonder::testing::find_violation(stress.history());
  EXPECT_FALSE(violation) << *violation;
}

TEST(HeapStress, AMillionOperationsDuringCompactionAreLinearizable) {
  run_and_check({.operations = 1'000'000});
}
TEST(HeapStress, FewObjectsAreFoughtOver) {
  run_and_check({.cells = 8, .bytes = 200, .operations = 150'000});
}
TEST(HeapStress, LargeObjectsAreCopiedWhole) {
  run_and_check({.cells = 64, .bytes = 6000, .operations = 60'000});
}
TEST(HeapStress, WithLineVersions) {
  run_and_check(
      {.options = {.classes = {.validator = Validator::kLines}}, .bytes = 150, .operations = 150'000});
}
TEST(HeapStress, WithChecksums) {
  run_and_check(
      {.options = {.classes = {.validator = Validator::kChecksum}}, .bytes = 150, .operations = 150'000});
}
TEST(HeapStress, WithBlocksThatAreRemapped) {
  run_and_check(
      {.options = {.classes = {.frame_bytes = 4096}, .remap = Remap::kMmap}, .operations = 150'000});
}
TEST(HeapStress, WithAnIndexOfDisplacedObjects) {
  run_and_check({.options = {.correction = Correction::kIndex}, .operations = 150'000});
}
TEST(HeapStress, WithOwnersOfDisplacedObjects) {
  run_and_check({.options = {.correction = Correction::kOwner, .owners = 2}, .operations = 150'000});
}

// All threads allocate and free at a tight limit, with compaction as the relief.
TEST(HeapStress, AtTheMemoryLimitNothingIsLost) {
  const auto heap =
      Heap::create(kClock, {.limit = Bytes(2 << 20), .seed = ::yonder::testing::test_seed() | 1}).value();
  std::vector<std::thread> threads;
  std::atomic<std::uint64_t> refused{0};
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      HeapThread thread = heap->register_thread().value();
      Prng random(::yonder::testing::test_seed() + static_cast<std::uint64_t>(t));
      std::vector<std::pair<ObjectPtr, std::uint64_t>> mine;
      for (int i = 0; i < 8000; ++i) {
        const auto size = static_cast<std::uint32_t>(8 + random.below(900));
        if (auto object = thread.alloc(size)) {
          const std::uint64_t number = random();
          const std::vector<std::byte> value = pattern(size, number);
          ASSERT_TRUE(thread.write(*object, value));
          mine.emplace_back(*object, number);
        } else {
          ASSERT_EQ(object.error(), ErrorCode::kOutOfMemory);
          refused.fetch_add(1);
        }
        // Keep about a megabyte each, so that the three do not fit.
        while (mine.size() > 2500 || (!mine.empty() && random.below(3) == 0)) {
          auto& [object, number] = mine[random.below(mine.size())];
          std::vector<std::byte> value(object.size());
          ASSERT_TRUE(thread.read(object, value));
          ASSERT_EQ(number_in(value), number);
          ASSERT_TRUE(thread.free(object));
          std::swap(mine.back().first, object);
          std::swap(mine.back().second, number);
          mine.pop_back();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(refused.load(), 0u);
  heap->check_invariants();
}

}  // namespace
}  // namespace yonder::node
