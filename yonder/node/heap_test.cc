#include "yonder/node/heap.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/node/block_table.h"
#include "yonder/os/steady_clock.h"
#include "yonder/testing/seed.h"

namespace yonder::node {
namespace {

const os::SteadyClock kClock;

std::unique_ptr<Heap> make_heap(HeapOptions options = {}) {
  if (options.seed == 0) options.seed = ::yonder::testing::test_seed() | 1;
  auto heap = Heap::create(kClock, options);
  EXPECT_TRUE(heap) << heap.error();
  return std::move(*heap);
}

std::vector<std::byte> pattern(std::size_t bytes, std::uint64_t seed) {
  Prng random(seed);
  std::vector<std::byte> out(bytes);
  for (std::byte& b : out) b = static_cast<std::byte>(random());
  return out;
}

std::vector<std::byte> contents(HeapThread& thread, ObjectPtr object) {
  std::vector<std::byte> out(object.size());
  EXPECT_TRUE(thread.read(object, out));
  return out;
}

class HeapTest : public ::testing::TestWithParam<Validator> {
 protected:
  std::unique_ptr<Heap> heap_ = make_heap({.classes = {.validator = GetParam()}});
  HeapThread thread_ = heap_->register_thread().value();
};
INSTANTIATE_TEST_SUITE_P(Validators, HeapTest,
                         ::testing::Values(Validator::kReread, Validator::kLines, Validator::kChecksum));

TEST_P(HeapTest, KeepsObjectsOfEverySize) {
  std::vector<std::pair<ObjectPtr, std::vector<std::byte>>> objects;
  for (const std::uint32_t bytes : {1u, 7u, 8u, 64u, 100u, 1000u, 4096u, 65000u, 65536u, 200000u, 3000000u}) {
    ObjectPtr object = thread_.alloc(bytes).value();
    EXPECT_EQ(contents(thread_, object), std::vector<std::byte>(bytes)) << "new objects are zero";
    objects.emplace_back(object, pattern(bytes, bytes));
    ASSERT_TRUE(thread_.write(object, objects.back().second));
  }
  for (const auto& [object, expected] : objects) EXPECT_EQ(contents(thread_, object), expected);
  heap_->check_invariants();
  for (const auto& [object, expected] : objects) ASSERT_TRUE(thread_.free(object));
  heap_->check_invariants();
}

TEST_P(HeapTest, ReusedMemoryShowsNothingOfTheOldObject) {
  for (int round = 0; round < 300; ++round) {
    ObjectPtr object = thread_.alloc(200).value();
    ASSERT_EQ(contents(thread_, object), std::vector<std::byte>(200));
    ASSERT_TRUE(thread_.write(object, pattern(200, 5)));
    ASSERT_TRUE(thread_.free(object));
  }
}

TEST_P(HeapTest, WritesAPrefixAndCountsVersions) {
  ObjectPtr object = thread_.alloc(300).value();
  std::vector<std::byte> expected = pattern(300, 1);
  const ObjectVersion first = thread_.write(object, expected).value();
  const auto prefix = pattern(70, 2);
  const ObjectVersion second = thread_.write(object, prefix).value();
  EXPECT_NE(first, second);
  std::ranges::copy(prefix, expected.begin());
  std::vector<std::byte> out(300);
  EXPECT_EQ(thread_.read(object, out).value(), second);
  EXPECT_EQ(out, expected);
}

TEST_P(HeapTest, WritesIfTheVersionIsUnchanged) {
  ObjectPtr object = thread_.alloc(64).value();
  const ObjectVersion first = thread_.write(object, pattern(64, 1)).value();
  const ObjectVersion second = thread_.write_if_version(object, first, pattern(64, 2)).value();
  const auto refused = thread_.write_if_version(object, first, pattern(64, 3));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), ErrorCode::kVersionMismatch);
  EXPECT_EQ(refused.error().detail(), second.value());
  EXPECT_EQ(contents(thread_, object), pattern(64, 2));
}

TEST(Heap, RefusesSuperblocksTooSmallForTheLargestObject) {
  HeapOptions options{.superblock = Bytes((std::uint64_t{64} << 20) + 4096)};
  EXPECT_TRUE(Heap::create(kClock, options));
  options.classes.validator = Validator::kLines;
  EXPECT_FALSE(Heap::create(kClock, options)) << "a version byte in every line";
}

TEST(Heap, RefusesSizesItCannotHave) {
  const auto heap = make_heap();
  HeapThread thread = heap->register_thread().value();
  EXPECT_EQ(thread.alloc(0).error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(thread.alloc(kMaxObjectBytes + 1).error(), ErrorCode::kInvalidArgument);
  ObjectPtr object = thread.alloc(kMaxObjectBytes).value();
  std::vector<std::byte> out(100);
  EXPECT_TRUE(thread.read(object, out));
  EXPECT_TRUE(thread.free(object));
  ObjectPtr small = thread.alloc(10).value();
  EXPECT_EQ(thread.read(small, out).error(), ErrorCode::kOutOfBounds);
  EXPECT_EQ(thread.write(small, out).error(), ErrorCode::kOutOfBounds);
}

TEST(Heap, ReadsLargeObjectsWhole) {
  const auto heap = make_heap();
  HeapThread thread = heap->register_thread().value();
  ObjectPtr object = thread.alloc(20 << 20).value();
  const auto data = pattern(20 << 20, 9);
  const ObjectVersion version = thread.write(object, data).value();
  std::vector<std::byte> out(data.size());
  EXPECT_EQ(thread.read(object, out).value(), version);
  EXPECT_EQ(out, data);
  EXPECT_TRUE(thread.write(object, pattern(10, 1))) << "the reader let go of it";
}

// As on a machine that is too slow, or too busy, for the bound on copies.
TEST_P(HeapTest, ReadsWhatItCannotCopyInTime) {
  const auto heap = make_heap({.classes = {.validator = GetParam()}, .longest_copy = Duration::zero()});
  HeapThread thread = heap->register_thread().value();
  for (const std::uint32_t bytes : {8u, 1000u, 65536u, 300000u}) {
    ObjectPtr object = thread.alloc(bytes).value();
    EXPECT_EQ(contents(thread, object), std::vector<std::byte>(bytes));
    const auto data = pattern(bytes, bytes);
    const ObjectVersion version = thread.write(object, data).value();
    std::vector<std::byte> out(bytes);
    const auto read = thread.read(object, out);
    ASSERT_TRUE(read) << read.error();
    EXPECT_EQ(*read, version);
    EXPECT_EQ(out, data);
    EXPECT_TRUE(thread.write(object, data)) << "the reader let go of it";
  }
  heap->check_invariants();
}

TEST(Heap, FreedPointersNameNothing) {
  const auto heap = make_heap();
  HeapThread thread = heap->register_thread().value();
  for (const std::uint32_t bytes : {32u, 5000u, 100000u}) {
    ObjectPtr object = thread.alloc(bytes).value();
    ASSERT_TRUE(thread.free(object));
    std::vector<std::byte> out(1);
    EXPECT_EQ(thread.free(object).error(), ErrorCode::kNoSuchObject) << "double free";
    EXPECT_EQ(thread.read(object, out).error(), ErrorCode::kNoSuchObject);
    EXPECT_EQ(thread.write(object, out).error(), ErrorCode::kNoSuchObject);
    EXPECT_EQ(thread.find(object).error(), ErrorCode::kNoSuchObject);
    EXPECT_EQ(thread.release_ptr(object).error(), ErrorCode::kNoSuchObject);
  }
  heap->check_invariants();
}

TEST(Heap, AThreadUsesTheSlotsAgainThatItFreedLast) {
  const auto heap = make_heap();
  HeapThread thread = heap->register_thread().value();
  std::vector<ObjectPtr> objects;
  for (int i = 0; i < 1000; ++i) objects.push_back(thread.alloc(32).value());
  const ObjectPtr freed[] = {objects[10], objects[500], objects[900]};
  for (const ObjectPtr object : freed) ASSERT_TRUE(thread.free(object));
  for (int i = 2; i >= 0; --i) {
    const ObjectPtr next = thread.alloc(32).value();
    EXPECT_EQ(next.slot(), freed[i].slot());
    EXPECT_EQ(next.home(), freed[i].home());
    EXPECT_NE(next.id(), freed[i].id());
  }
  heap->check_invariants();
}

// 2^b - 1 objects long, b the bits of an id that do not count the block's slots.
TEST(Heap, AFreedPointerNamesNoneOfTheNextObjectsInItsSlot) {
  const auto heap = make_heap();
  HeapThread thread = heap->register_thread().value();
  const SizeClass& shape = heap->classes()[heap->classes().class_for(32)];
  const ObjectPtr first = thread.alloc(32).value();
  ASSERT_TRUE(thread.free(first));
  std::vector<std::byte> out(32);
  std::set<std::uint16_t> ids = {first.id().value()};
  // One less than all: the id 0 is left out where the slot is a block's first.
  for (std::uint32_t i = 2; i < (1u << 16) / shape.block_slots; ++i) {
    const ObjectPtr next = thread.alloc(32).value();
    ASSERT_EQ(next.slot(), first.slot());
    ASSERT_TRUE(ids.insert(next.id().value()).second) << i;
    ObjectPtr old = first;
    ASSERT_EQ(thread.read(old, out).error(), ErrorCode::kNoSuchObject);
    ASSERT_TRUE(thread.free(next));
  }
}

TEST(Heap, ForeignAndForgedPointersAreRefusedAndTouchNothing) {
  const auto heap = make_heap({.node = NodeId(3)});
  HeapThread thread = heap->register_thread().value();
  std::vector<std::pair<ObjectPtr, std::vector<std::byte>>> objects;
  std::set<std::pair<std::uint32_t, std::uint16_t>> identities;
  for (std::uint32_t i = 0; i < 3000; ++i) {
    ObjectPtr object = thread.alloc(1 + i % 700).value();
    objects.emplace_back(object, pattern(object.size(), i));
    identities.insert({object.home().value(), object.id().value()});
    ASSERT_TRUE(thread.write(object, objects.back().second));
  }
  ObjectPtr foreign = ObjectPtr::from_words(
      objects[0].first.low(), objects[0].first.high() ^ (std::uint64_t{1} << (kSizeBits + kClassBits)));
  EXPECT_EQ(thread.free(foreign).error(), ErrorCode::kForeignPointer);
  EXPECT_EQ(thread.free(ObjectPtr()).error(), ErrorCode::kInvalidArgument);

  Prng random(::yonder::testing::test_seed());
  std::vector<std::byte> junk(64, std::byte{0xff});
  for (int i = 0; i < 100000; ++i) {
    // Wholly random words, and plausible pointers with a random part.
    ObjectPtr forged = ObjectPtr::from_words(random(), random());
    if (i % 2 == 0) {
      const ObjectPtr real = objects[random.below(objects.size())].first;
      forged = ObjectPtr(
          {.home = BlockId(static_cast<std::uint32_t>(random.below(3) == 0 ? random.below(1 << 26)
                                                                           : real.home().value())),
           .id = ObjectId(static_cast<std::uint16_t>(random())),
           .slot = static_cast<std::uint32_t>(random.below(1 << 18)),
           .size = random.below(2) == 0 ? real.size() : 64,
           .size_class = static_cast<std::uint8_t>(random.below(2) == 0 ? real.size_class() : random()),
           .node = NodeId(3),
           .life = real.life()});
    }
    if (identities.contains({forged.home().value(), forged.id().value()})) continue;
    ASSERT_FALSE(thread.write(forged, std::span(junk).first(1)));
    ASSERT_FALSE(thread.read(forged, std::span(junk).first(1)));
    ASSERT_FALSE(thread.release_ptr(forged));
    ASSERT_FALSE(thread.free(forged));
  }
  for (const auto& [object, expected] : objects) ASSERT_EQ(contents(thread, object), expected);
  heap->check_invariants();
}

TEST(Heap, PointersOfALifeThatWasLostAreRefusedAndTouchNothing) {
  const HeapOptions options{.limit = Bytes(16 << 20), .seed = ::yonder::testing::test_seed() | 1};
  ObjectPtr lost;
  {
    const auto heap = Heap::create(kClock, options).value();
    lost = heap->register_thread().value().alloc(100).value();
  }
  auto heap = Heap::create(kClock, options).value();
  while (life_tag(heap->life()) == lost.life()) heap = Heap::create(kClock, options).value();
  HeapThread thread = heap->register_thread().value();
  ObjectPtr object = thread.alloc(100).value();
  ASSERT_EQ(object.low(), lost.low()) << "one seed gives one identity";
  ASSERT_TRUE(thread.write(object, pattern(100, 4)));
  std::vector<std::byte> out(100);
  EXPECT_EQ(thread.read(lost, out).error(), ErrorCode::kNoSuchObject);
  EXPECT_EQ(thread.write(lost, out).error(), ErrorCode::kNoSuchObject);
  EXPECT_EQ(thread.find(lost).error(), ErrorCode::kNoSuchObject);
  EXPECT_EQ(thread.release_ptr(lost).error(), ErrorCode::kNoSuchObject);
  EXPECT_EQ(thread.free(lost).error(), ErrorCode::kNoSuchObject);
  EXPECT_EQ(contents(thread, object), pattern(100, 4));
}

TEST(Heap, FindsAnObjectWithAnOutdatedHint) {
  const auto heap = make_heap();
  HeapThread thread = heap->register_thread().value();
  ObjectPtr object = thread.alloc(100).value();
  ASSERT_TRUE(thread.write(object, pattern(100, 4)));
  ObjectPtr outdated = object.with_slot(object.slot() + 7);
  EXPECT_EQ(thread.find(outdated).value(), object);
  EXPECT_EQ(contents(thread, outdated), pattern(100, 4));
  std::vector<std::byte> out(100);
  ASSERT_TRUE(thread.read(outdated, out));
  EXPECT_EQ(outdated, object) << "the hint was corrected";
  EXPECT_EQ(thread.release_ptr(object).value(), object) << "nothing to gain at home";
  EXPECT_GE(heap->stats().corrections, 3u);
}

TEST(Heap, StopsAtItsLimitWithoutLosingAnything) {
  const auto heap = make_heap({.limit = Bytes(8 << 20)});
  HeapThread thread = heap->register_thread().value();
  std::vector<ObjectPtr> objects;
  Result<ObjectPtr> object = thread.alloc(10000);
  for (; object; object = thread.alloc(10000)) objects.push_back(*object);
  EXPECT_EQ(object.error(), ErrorCode::kOutOfMemory);
  EXPECT_EQ(thread.alloc(9 << 20).error(), ErrorCode::kOutOfMemory);
  EXPECT_GT(objects.size(), 700u);
  heap->check_invariants();
  for (const ObjectPtr o : objects) ASSERT_TRUE(thread.free(o));
  EXPECT_TRUE(thread.alloc(7 << 20)) << "freed memory is there again";
}

TEST(Heap, AsksForReliefBeforeItRefuses) {
  int asked = 0;
  ObjectPtr ballast;
  HeapThread* helper = nullptr;
  const auto heap = make_heap({.limit = Bytes(8 << 20), .on_shortage = [&] {
                                 ++asked;
                                 return ballast && helper->free(std::exchange(ballast, {})).has_value();
                               }});
  HeapThread other = heap->register_thread().value();
  HeapThread thread = heap->register_thread().value();
  helper = &other;
  ballast = other.alloc(6 << 20).value();
  EXPECT_TRUE(thread.alloc(4 << 20));
  EXPECT_EQ(asked, 1);
  EXPECT_FALSE(thread.alloc(6 << 20));
}

std::uint64_t resident_bytes(const Heap& heap) {
  std::uint64_t bytes = 0;
  heap.frames().for_each_superblock([&](const Superblock& superblock) {
    struct stat status{};
    ASSERT_EQ(::fstat(superblock.memfd.fd().get(), &status), 0);
    bytes += static_cast<std::uint64_t>(status.st_blocks) * 512;
  });
  return bytes;
}

TEST(Heap, GivesFreedMemoryBackToTheSystem) {
  const auto heap = make_heap();
  HeapThread thread = heap->register_thread().value();
  std::vector<ObjectPtr> objects;
  for (int i = 0; i < 100000; ++i) {
    objects.push_back(thread.alloc(300).value());
    ASSERT_TRUE(thread.write(objects.back(), pattern(300, 1)));
  }
  objects.push_back(thread.alloc(10 << 20).value());
  ASSERT_TRUE(thread.write(objects.back(), pattern(10 << 20, 1)));
  const std::uint64_t full = resident_bytes(*heap);
  EXPECT_GT(full, 40u << 20);
  for (const ObjectPtr object : objects) ASSERT_TRUE(thread.free(object));
  EXPECT_TRUE(heap->reclaim());
  EXPECT_LT(resident_bytes(*heap), 256u << 10);
  EXPECT_LT(heap->stats().active_bytes, 256u << 10);
  heap->check_invariants();
}

TEST(Heap, KeepsNoFrameOfAClassWithoutObjects) {
  const auto heap = make_heap();
  HeapThread thread = heap->register_thread().value();
  std::vector<ObjectPtr> objects;
  for (std::uint32_t bytes = 8; bytes < 60000; bytes += bytes / 4)
    objects.push_back(thread.alloc(bytes).value());
  for (const ObjectPtr object : objects) ASSERT_TRUE(thread.free(object));
  EXPECT_TRUE(heap->reclaim());
  EXPECT_EQ(heap->stats().active_bytes, 0u);
  EXPECT_EQ(heap->stats().blocks, 0u);
}

TEST(Heap, RareClassesShareFramesAmongThreads) {
  const auto heap = make_heap();
  std::vector<HeapThread> threads;
  for (int i = 0; i < 32; ++i) threads.push_back(heap->register_thread().value());
  for (HeapThread& thread : threads) ASSERT_TRUE(thread.alloc(1000));
  const ClassStats stats = heap->stats().classes[heap->classes().class_for(1000)];
  EXPECT_EQ(stats.live, 32u);
  EXPECT_LE(stats.slots, 64u) << "not a frame per thread";
}

TEST(Heap, CountsExactlyAcrossThreads) {
  const auto heap = make_heap();
  HeapThread a = heap->register_thread().value();
  HeapThread b = heap->register_thread().value();
  std::vector<ObjectPtr> objects;
  for (int i = 0; i < 1000; ++i) objects.push_back((i % 2 == 0 ? a : b).alloc(50).value());
  for (int i = 0; i < 600; ++i) ASSERT_TRUE((i % 3 == 0 ? a : b).free(objects[static_cast<std::size_t>(i)]));
  const ClassStats stats = heap->stats().classes[heap->classes().class_for(50)];
  EXPECT_EQ(stats.allocated, 1000u);
  EXPECT_EQ(stats.freed, 600u);
  EXPECT_EQ(stats.live, 400u);
  heap->check_invariants();
}

TEST(Heap, LetsAnotherThreadTakeALeaversPlace) {
  const auto heap = make_heap({.max_threads = 1});
  ObjectPtr object;
  {
    HeapThread thread = heap->register_thread().value();
    EXPECT_EQ(heap->register_thread().error(), ErrorCode::kResourceExhausted);
    for (int i = 0; i < 200; ++i) object = thread.alloc(40).value();
  }
  HeapThread thread = heap->register_thread().value();
  EXPECT_TRUE(thread.free(object));
  heap->check_invariants();
}

TEST(Heap, RefusesNonsenseOptions) {
  EXPECT_FALSE(Heap::create(kClock, {.limit = Bytes(0)}));
  EXPECT_FALSE(Heap::create(kClock, {.classes = {.frame_bytes = 1000}}));
  EXPECT_FALSE(Heap::create(kClock, {.max_threads = 0}));
  EXPECT_FALSE(Heap::create(kClock, {.longest_copy = kVersionWrapBound + Duration(1)}));
}

}  // namespace
}  // namespace yonder::node
