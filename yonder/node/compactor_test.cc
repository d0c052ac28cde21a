#include "yonder/node/compactor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/node/block_table.h"
#include "yonder/node/heap.h"
#include "yonder/os/steady_clock.h"
#include "yonder/testing/seed.h"

namespace yonder::node {
namespace {

const os::SteadyClock kClock;

struct Stored {
  ObjectPtr object;
  std::uint64_t seed;
};

// A heap with a class that was filled and then thinned out at random.
class Thinned {
 public:
  Thinned(HeapOptions options, std::uint32_t bytes, std::size_t count, double freed)
      : random_(::yonder::testing::test_seed()) {
    options.seed = ::yonder::testing::test_seed() | 1;
    heap_ = Heap::create(kClock, options).value();
    threads_.push_back(heap_->register_thread().value());
    threads_.push_back(heap_->register_thread().value());
    class_ = heap_->classes().class_for(bytes);
    for (std::size_t i = 0; i < count; ++i) {
      objects_.push_back({thread(i).alloc(bytes).value(), random_()});
      EXPECT_TRUE(thread().write(objects_.back().object, value(objects_.back())));
    }
    std::erase_if(objects_, [&](const Stored& stored) {
      if (!random_.chance(freed)) return false;
      EXPECT_TRUE(thread().free(stored.object));
      return true;
    });
  }
  ~Thinned() { heap_->check_invariants(); }

  Heap& heap() { return *heap_; }
  Compactor& compactor() { return heap_->compactor(); }
  HeapThread& thread(std::size_t i = 0) { return threads_[i % 2]; }
  std::uint8_t size_class() const { return class_; }
  ClassStats stats() const { return heap_->stats().classes[class_]; }
  std::vector<Stored>& objects() { return objects_; }
  const SizeClass& shape() const { return heap_->classes()[class_]; }
  std::uint64_t ideal_frames() const { return (objects_.size() + shape().slots - 1) / shape().slots; }
  // How many a compacted class may have, besides those that threads hold: blocks that fill
  // frames go together two or three at a time, small ones fill every gap.
  double most_frames() const {
    return (shape().blocks == 1 ? 1.5 : 1.02) * static_cast<double>(ideal_frames());
  }

  static std::vector<std::byte> value(const Stored& stored) {
    Prng random(stored.seed);
    std::vector<std::byte> out(stored.object.size());
    for (std::byte& b : out) b = static_cast<std::byte>(random());
    return out;
  }
  void expect_all_intact() {
    std::vector<std::byte> out;
    for (Stored& stored : objects_) {
      out.assign(stored.object.size(), std::byte{0});
      ASSERT_TRUE(thread().read(stored.object, out));
      ASSERT_EQ(out, value(stored));
    }
  }

 private:
  std::unique_ptr<Heap> heap_;
  std::vector<HeapThread> threads_;
  std::vector<Stored> objects_;
  Prng random_;
  std::uint8_t class_ = 0;
};

// With every way to publish where a block is.
class CompactorTest : public ::testing::TestWithParam<Remap> {
 protected:
  static HeapOptions on(HeapOptions options) {
    options.remap = GetParam();
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(Remap, CompactorTest, ::testing::Values(Remap::kTable, Remap::kMmap),
                         [](const auto& of) { return of.param == Remap::kTable ? "Table" : "Mmap"; });

TEST_P(CompactorTest, FreesFramesAndKeepsEveryObject) {
  for (const Validator validator : {Validator::kReread, Validator::kLines, Validator::kChecksum}) {
    for (const std::uint32_t bytes : {16u, 32u, 100u, 256u, 2000u}) {
      Thinned thinned(on({.classes = {.validator = validator}}), bytes, 4000, 0.7);
      const std::uint64_t before = thinned.stats().frames;
      EXPECT_GT(thinned.compactor().compact(thinned.size_class()), 0u);
      EXPECT_LT(thinned.stats().frames, before);
      EXPECT_LE(static_cast<double>(thinned.stats().frames), thinned.most_frames() + 1);
      thinned.heap().check_invariants();
      thinned.expect_all_intact();
    }
  }
}

TEST(Compactor, ComesWithinTwoPercentOfTheIdeal) {
  for (const std::uint32_t bytes : {32u, 256u, 2048u}) {
    for (const double freed : {0.4, 0.6, 0.9}) {
      Thinned thinned({}, bytes, 40000, freed);
      thinned.compactor().compact(thinned.size_class());
      EXPECT_LE(static_cast<double>(thinned.stats().frames),
                1.02 * static_cast<double>(thinned.ideal_frames()) + 1)
          << bytes << " bytes, " << freed << " freed";
    }
  }
}

TEST_P(CompactorTest, CorrectsPointersByScanByIndexAndByOwners) {
  for (const Correction correction : {Correction::kScan, Correction::kIndex, Correction::kOwner}) {
    Thinned thinned(on({.correction = correction}), 48, 3000, 0.6);
    const auto old = thinned.objects();
    thinned.compactor().compact(thinned.size_class());
    const std::uint64_t before = thinned.heap().stats().corrections;
    thinned.expect_all_intact();
    EXPECT_GT(thinned.heap().stats().corrections, before) << "some objects were displaced";
    std::size_t displaced = 0;
    for (std::size_t i = 0; i < old.size(); ++i) {
      EXPECT_TRUE(same_object(old[i].object, thinned.objects()[i].object));
      displaced += old[i].object == thinned.objects()[i].object ? 0 : 1;
    }
    EXPECT_LT(displaced, old.size()) << "some kept their slot";
    const std::uint64_t corrected = thinned.heap().stats().corrections;
    thinned.expect_all_intact();
    EXPECT_EQ(thinned.heap().stats().corrections, corrected) << "a corrected pointer is direct";
    for (const Stored& stored : thinned.objects()) ASSERT_TRUE(thinned.thread().free(stored.object));
    thinned.objects().clear();
  }
}

// Slots that were used before, so that objects begin blank and their slots hold the
// bytes of others.
TEST_P(CompactorTest, MovesBlankObjectsWithoutWhatLiesInTheirSlots) {
  for (const Validator validator : {Validator::kReread, Validator::kLines, Validator::kChecksum}) {
    Thinned thinned(on({.classes = {.validator = validator}}), 100, 4000, 0.9);
    std::vector<ObjectPtr> blank;
    for (std::size_t i = 0; i < 2000; ++i) blank.push_back(thinned.thread(i).alloc(100).value());
    for (std::size_t i = 0; i < 1500; ++i) ASSERT_TRUE(thinned.thread(i).free(blank[i]));
    blank.erase(blank.begin(), blank.begin() + 1500);
    EXPECT_GT(thinned.compactor().compact(thinned.size_class()), 0u);
    for (ObjectPtr& object : blank) {
      std::vector<std::byte> out(100, std::byte{1});
      ASSERT_TRUE(thinned.thread().read(object, out));
      ASSERT_EQ(out, std::vector<std::byte>(100));
      const std::byte first{7};
      ASSERT_TRUE(thinned.thread().write(object, {&first, 1}));
      ASSERT_TRUE(thinned.thread().read(object, out));
      ASSERT_EQ(out[0], first);
      ASSERT_TRUE(std::all_of(out.begin() + 1, out.end(), [](std::byte b) { return b == std::byte{0}; }));
    }
    thinned.expect_all_intact();
    for (const ObjectPtr object : blank) ASSERT_TRUE(thinned.thread().free(object));
  }
}

TEST_P(CompactorTest, SaysInADryRunWhatItWillDo) {
  Thinned thinned(on({}), 64, 5000, 0.5);
  const std::uint64_t frames = thinned.stats().frames;
  const CompactionEstimate estimate = thinned.compactor().dry_run(thinned.size_class());
  EXPECT_EQ(thinned.stats().frames, frames) << "nothing was changed";
  EXPECT_EQ(thinned.compactor().counters().runs, 0u);
  thinned.compactor().compact(thinned.size_class());
  const CompactionCounters done = thinned.compactor().counters();
  EXPECT_EQ(frames - thinned.stats().frames, done.frames_freed);
  EXPECT_LE(estimate.frames_freed, done.frames_freed);
  EXPECT_GE(estimate.frames_freed * 10, done.frames_freed * 9);
  EXPECT_EQ(estimate.bytes_freed, estimate.frames_freed * thinned.shape().frame_bytes);
}

TEST_P(CompactorTest, WorksInSlicesBetweenWhichEverythingIsConsistent) {
  Thinned thinned(on({.classes = {.frame_bytes = 4096}}), 32, 6000, 0.75);
  const SliceLimits one_block{.blocks = 1, .time = std::chrono::seconds(1)};
  SliceOutcome outcome = SliceOutcome::kMore;
  int slices = 0;
  std::uint64_t moved = 0;
  for (; outcome == SliceOutcome::kMore; ++slices) {
    outcome = thinned.compactor().slice(thinned.size_class(), one_block);
    const std::uint64_t now = thinned.compactor().counters().blocks_moved;
    EXPECT_LE(now - moved, 1u) << "the limit of a slice";
    moved = now;
    if (slices % 40 == 0) {
      thinned.heap().check_invariants();
      thinned.expect_all_intact();
    }
  }
  EXPECT_EQ(outcome, SliceOutcome::kDone);
  EXPECT_GT(slices, 30);
  thinned.expect_all_intact();
}

TEST_P(CompactorTest, CanBeStoppedAnywhereAndLaterFinishes) {
  Prng random(::yonder::testing::test_seed());
  Thinned thinned(on({.classes = {.frame_bytes = 4096}}), 40, 8000, 0.8);
  for (int round = 0; round < 24; ++round) {
    // Without time a slice does the least it can: rounds end while collecting, too.
    const Duration time = std::chrono::seconds(round % 2);
    const std::uint64_t slices = 1 + random.below(round % 2 == 0 ? 150 : 8);
    for (std::uint64_t i = 0; i < slices; ++i) {
      thinned.compactor().slice(thinned.size_class(),
                                {.blocks = static_cast<std::uint32_t>(1 + random.below(9)), .time = time});
    }
    thinned.compactor().stop(thinned.size_class());
    thinned.heap().check_invariants();
    thinned.expect_all_intact();
    // The heap goes on in between.
    for (int i = 0; i < 100; ++i) {
      thinned.objects().push_back({thinned.thread().alloc(40).value(), random()});
      ASSERT_TRUE(
          thinned.thread().write(thinned.objects().back().object, Thinned::value(thinned.objects().back())));
      const std::size_t victim = random.below(thinned.objects().size());
      ASSERT_TRUE(thinned.thread().free(thinned.objects()[victim].object));
      thinned.objects().erase(thinned.objects().begin() + static_cast<std::ptrdiff_t>(victim));
    }
  }
  thinned.compactor().compact(thinned.size_class());
  thinned.heap().check_invariants();
  // Runs that were stopped leave blocks of odd sizes behind; among twenty frames that may
  // cost a few, among hundreds it does not show.
  EXPECT_LE(static_cast<double>(thinned.stats().frames), thinned.most_frames() + 5);
  thinned.expect_all_intact();
}

// More frames than one run takes: each takes the emptiest.
TEST_P(CompactorTest, WorksThroughALargeClassInManyRuns) {
  Thinned thinned(on({.classes = {.frame_bytes = 4096}, .compaction = {.max_frames = 16}}), 32, 20000, 0.7);
  const std::uint64_t before = thinned.stats().frames;
  EXPECT_GT(before, 190u);
  thinned.compactor().compact(thinned.size_class());
  EXPECT_GT(thinned.compactor().counters().runs, 8u);
  // What is left over can be a sixteenth: less than a frame in sixteen.
  EXPECT_LE(static_cast<double>(thinned.stats().frames), 17.0 / 16 * thinned.most_frames() + 2);
  thinned.expect_all_intact();
}

TEST_P(CompactorTest, CollectsInSlices) {
  Thinned thinned(on({.classes = {.frame_bytes = 4096}}), 32, 20000, 0.7);
  int slices = 0;
  while (thinned.compactor().counters().objects_moved == 0) {
    ASSERT_EQ(thinned.compactor().slice(thinned.size_class(), {.time = Duration(0)}), SliceOutcome::kMore);
    // The heap goes on between the steps: what threads take is not the run's.
    thinned.objects().push_back({thinned.thread(static_cast<std::size_t>(slices)).alloc(32).value(), 7});
    ASSERT_TRUE(
        thinned.thread().write(thinned.objects().back().object, Thinned::value(thinned.objects().back())));
    thinned.heap().check_invariants();
    ++slices;
  }
  EXPECT_GT(slices, 100) << "one frame is read per slice that has no time";
  thinned.compactor().compact(thinned.size_class());
  thinned.expect_all_intact();
}

TEST_P(CompactorTest, TakesFramesAwayFromThreadsThatGoOnAllocating) {
  Thinned thinned(on({}), 64, 400, 0.5);
  // Both threads own a frame now; the compactor takes them.
  EXPECT_NE(thinned.compactor().slice(thinned.size_class()), SliceOutcome::kBusy);
  for (std::size_t i = 0; i < 200; ++i) {
    thinned.objects().push_back({thinned.thread(i).alloc(64).value(), i});
    ASSERT_TRUE(
        thinned.thread().write(thinned.objects().back().object, Thinned::value(thinned.objects().back())));
  }
  thinned.compactor().compact(thinned.size_class());
  thinned.heap().check_invariants();
  thinned.expect_all_intact();
}

TEST_P(CompactorTest, FreesBlockIdsWhenTheirLastObjectIsFreedOrReleased) {
  Thinned thinned(on({}), 32, 5000, 0.8);
  thinned.compactor().compact(thinned.size_class());
  const std::uint32_t with_aliases = thinned.heap().stats().blocks;
  const std::uint64_t frames = thinned.stats().frames;
  EXPECT_GT(with_aliases, frames * thinned.shape().blocks);
  std::size_t rehomed = 0;
  for (Stored& stored : thinned.objects()) {
    const ObjectPtr old = stored.object;
    stored.object = thinned.thread().release_ptr(old).value();
    if (same_object(old, stored.object)) continue;
    ++rehomed;
    std::vector<std::byte> out(1);
    ObjectPtr gone = old;
    EXPECT_EQ(thinned.thread().read(gone, out).error(), ErrorCode::kNoSuchObject);
  }
  EXPECT_GT(rehomed, 0u);
  EXPECT_EQ(thinned.heap().stats().blocks, frames * thinned.shape().blocks) << "only the frames' own";
  thinned.heap().check_invariants();
  thinned.expect_all_intact();
}

TEST_P(CompactorTest, CompactsBeforeTheHeapRefuses) {
  HeapOptions options{.limit = Bytes(4 << 20)};
  Thinned thinned(on(options), 100, 30000, 0.6);
  // Another class wants more than is left; thinned frames must make room.
  std::size_t got = 0;
  while (thinned.thread().alloc(3000)) ++got;
  EXPECT_GT(thinned.compactor().counters().bytes_freed, 1u << 20);
  EXPECT_GT(got, 500u);
  EXPECT_LE(static_cast<double>(thinned.stats().frames), thinned.most_frames() + 1);
  thinned.expect_all_intact();
}

TEST_P(CompactorTest, IsDueAboveItsThresholdOnly) {
  Thinned thinned(on({.compaction = {.threshold = 3.0, .min_waste_bytes = 4096}}), 32, 50000, 0.5);
  EXPECT_FALSE(thinned.compactor().is_due(thinned.size_class())) << "2 slots per object";
  EXPECT_EQ(thinned.compactor().run_due(), 0u);
  std::erase_if(thinned.objects(), [&, i = 0](const Stored& stored) mutable {
    return ++i % 2 == 0 && thinned.thread().free(stored.object);
  });
  EXPECT_TRUE(thinned.compactor().is_due(thinned.size_class())) << "4 slots per object";
  EXPECT_GT(thinned.compactor().run_due(), 0u);
  EXPECT_FALSE(thinned.compactor().is_due(thinned.size_class()));
}

TEST_P(CompactorTest, TakesThresholdsPerClass) {
  CompactorOptions options{.threshold = 1.1, .min_waste_bytes = 4096};
  const auto classes = SizeClasses::create({}).value();
  options.class_thresholds.resize(classes.count());
  options.class_thresholds[classes.class_for(32)] = 100;
  Thinned thinned(on({.compaction = options}), 32, 5000, 0.9);
  EXPECT_FALSE(thinned.compactor().is_due(thinned.size_class()));
}

TEST_P(CompactorTest, WorksInTheBackground) {
  Thinned thinned(on({.compaction = {.min_waste_bytes = 4096}}), 32, 20000, 0.8);
  ASSERT_TRUE(thinned.compactor().start_background(std::chrono::milliseconds(1)));
  EXPECT_FALSE(thinned.compactor().start_background(std::chrono::milliseconds(1)));
  const Deadline deadline = Deadline::after(kClock, std::chrono::seconds(30));
  while (thinned.compactor().is_due(thinned.size_class()) && !deadline.passed(kClock.now())) {
    thinned.expect_all_intact();
  }
  thinned.compactor().stop_background();
  EXPECT_FALSE(thinned.compactor().is_due(thinned.size_class()));
}

TEST_P(CompactorTest, HasNothingToDoInACompactOrEmptyHeap) {
  Thinned thinned(on({.classes = {.frame_bytes = 4096}}), 32, 102 * 4, 0.0);
  thinned.compactor().compact(thinned.size_class());
  const std::uint64_t moved = thinned.compactor().counters().objects_moved;
  EXPECT_EQ(thinned.stats().frames, 4u);
  for (std::size_t i = 0; i < thinned.heap().classes().count(); ++i) {
    EXPECT_EQ(thinned.compactor().slice(static_cast<std::uint8_t>(i)), SliceOutcome::kNothing);
  }
  EXPECT_EQ(thinned.compactor().counters().objects_moved, moved);
}

}  // namespace
}  // namespace yonder::node
