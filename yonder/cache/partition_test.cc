#include "yonder/cache/partition.h"

#include <gtest/gtest.h>

#include <string>

#include "yonder/cache/internal/layout.h"
#include "yonder/cache/internal/test_partition.h"
#include "yonder/os/memfd.h"

namespace yonder::cache {
namespace {

std::string name(int i) { return "key-" + std::to_string(i); }

TEST(Partition, HoldsWhatWasStored) {
  TestPartition partition;
  EXPECT_EQ(partition.get("a"), "(none)");
  EXPECT_EQ(partition.set("a", "one"), StoreOutcome::kStored);
  EXPECT_EQ(partition.get("a"), "one");
  EXPECT_EQ(partition.set("a", "two"), StoreOutcome::kStored);    // In place.
  EXPECT_EQ(partition.set("a", "three"), StoreOutcome::kStored);  // Not in place.
  EXPECT_EQ(partition.get("a"), "three");
  EXPECT_EQ(partition->stats().items, 1u);
  partition->check_invariants();
}

TEST(Partition, RefusesARangeItCannotUse) {
  MemoryBudget budget(1 << 20);
  alignas(4096) static std::byte small[8192];
  EXPECT_EQ(Partition::format(small, 0, budget, {}).error(), ErrorCode::kInvalidArgument);
  const os::Mapping memory = os::Mapping::anonymous({.bytes = 1 << 20}).value();
  EXPECT_EQ(Partition::format(memory.bytes().subspan(8), 0, budget, {}).error(), ErrorCode::kInvalidArgument);
  MemoryBudget nothing(0);
  EXPECT_EQ(Partition::format(memory.bytes(), 0, nothing, {}).error(), ErrorCode::kResourceExhausted);
}

TEST(Partition, FollowsTheRulesOfEachMode) {
  TestPartition partition;
  const Key key("k");
  const auto store = [&](StoreMode mode, std::string_view value, std::uint64_t cas = 0) {
    return partition->store(key, {.mode = mode, .cas = cas, .value = value}, 100);
  };
  EXPECT_EQ(store(StoreMode::kReplace, "x").outcome, StoreOutcome::kNotStored);
  EXPECT_EQ(store(StoreMode::kAppend, "x").outcome, StoreOutcome::kNotStored);
  EXPECT_EQ(store(StoreMode::kCas, "x", 1).outcome, StoreOutcome::kNotFound);
  const StoreReply added = store(StoreMode::kAdd, "b");
  EXPECT_EQ(added.outcome, StoreOutcome::kStored);
  EXPECT_EQ(store(StoreMode::kAdd, "y").outcome, StoreOutcome::kNotStored);
  EXPECT_EQ(store(StoreMode::kCas, "y", added.cas + 1).outcome, StoreOutcome::kExists);
  EXPECT_EQ(store(StoreMode::kCas, "y", 0).outcome, StoreOutcome::kExists);
  EXPECT_EQ(store(StoreMode::kPrepend, "a").outcome, StoreOutcome::kStored);
  EXPECT_EQ(store(StoreMode::kAppend, "c", added.cas).outcome, StoreOutcome::kExists);
  const StoreReply appended = store(StoreMode::kAppend, "c");
  EXPECT_EQ(partition.get("k"), "abc");
  EXPECT_EQ(store(StoreMode::kCas, "new", appended.cas).outcome, StoreOutcome::kStored);
  EXPECT_EQ(partition.get("k"), "new");
  partition->check_invariants();
}

TEST(Partition, TakesAnOldCasNumberAsStaleIfAskedTo) {
  TestPartition partition;
  const Key key("k");
  const StoreReply first = partition->store(key, {.expires = 500, .value = "1"}, 100);
  partition->store(key, {.expires = 500, .value = "2"}, 100);
  const StoreRequest late{.mode = StoreMode::kCas, .cas = first.cas, .accept_stale = true, .value = "3"};
  EXPECT_EQ(partition->store(key, late, 100).outcome, StoreOutcome::kStored);
  const Item* item = partition->find(key, 100);
  EXPECT_TRUE(item->has(kStale));
  EXPECT_EQ(item->expires, 500u);
  EXPECT_EQ(item->value(), "3");
}

TEST(Partition, KeepsClientFlagsOnlyWhereThereAreSome) {
  TestPartition partition;
  partition->store(Key("none"), {.value = "v"}, 100);
  partition->store(Key("some"), {.flags = 0xdeadbeef, .value = "v"}, 100);
  EXPECT_EQ(partition->find(Key("none"), 100)->flags(), 0u);
  EXPECT_EQ(partition->find(Key("some"), 100)->flags(), 0xdeadbeefu);
  EXPECT_EQ(partition->find(Key("none"), 100)->total_bytes(), 36u + 4 + 1);
  EXPECT_EQ(partition->find(Key("some"), 100)->total_bytes(), 36u + 4 + 4 + 1);
}

TEST(Partition, CountsInPlaceAndPadsWithSpaces) {
  TestPartition partition;
  partition.set("n", "10");
  EXPECT_EQ(partition->add(Key("n"), {.increment = false, .delta = 1}, 100).value, 9u);
  EXPECT_EQ(partition.get("n"), "9 ");
  EXPECT_EQ(partition->add(Key("n"), {.delta = 991}, 100).value, 1000u);
  EXPECT_EQ(partition.get("n"), "1000");
  EXPECT_EQ(partition->add(Key("n"), {.increment = false, .delta = 5000}, 100).value, 0u);
  EXPECT_EQ(partition->add(Key("n"), {.delta = UINT64_MAX}, 100).value, UINT64_MAX);
  EXPECT_EQ(partition->add(Key("n"), {.delta = 2}, 100).value, 1u);
  partition.set("text", "x1");
  EXPECT_EQ(partition->add(Key("text"), {}, 100).outcome, ArithmeticOutcome::kNotNumeric);
  partition.set("empty", "");
  EXPECT_EQ(partition->add(Key("empty"), {}, 100).outcome, ArithmeticOutcome::kNotNumeric);
  EXPECT_EQ(partition->add(Key("missing"), {}, 100).outcome, ArithmeticOutcome::kNotFound);
  EXPECT_EQ(partition->add(Key("n"), {.cas = 1}, 100).outcome, ArithmeticOutcome::kCasMismatch);
}

TEST(Partition, ForgetsWhatHasExpired) {
  TestPartition partition;
  partition.set("k", "v", 100, 110);
  EXPECT_EQ(partition.get("k", 109), "v");
  EXPECT_EQ(partition.get("k", 110), "(none)");
  EXPECT_EQ(partition->stats().items, 0u);
  EXPECT_EQ(partition->counters().expired_unfetched, 1u);
}

TEST(Partition, FlushesAtOnceWhatWasStoredBefore) {
  TestPartition partition;
  partition.set("old", "v", 100);
  partition->flush(100, 100);
  partition.set("new", "v", 100);  // In the same second.
  EXPECT_EQ(partition.get("old", 100), "(none)");
  EXPECT_EQ(partition.get("new", 100), "v");
}

TEST(Partition, FlushesLaterWhatWasStoredByThen) {
  TestPartition partition;
  partition.set("old", "v", 100);
  partition->flush(110, 100);
  partition.set("also", "v", 105);
  EXPECT_EQ(partition.get("old", 108), "v");
  partition.set("after", "v", 110);
  EXPECT_EQ(partition.get("old", 110), "(none)");
  EXPECT_EQ(partition.get("also", 110), "(none)");
  EXPECT_EQ(partition.get("after", 110), "v");
  partition.set("again", "v", 105);
  partition->flush(200, 150);  // What the first took does not come back.
  EXPECT_EQ(partition.get("again", 150), "(none)");
  EXPECT_EQ(partition.get("after", 150), "v");
}

TEST(Partition, CrawlsForExpiredItemsNobodyAsksFor) {
  TestPartition partition;
  for (int i = 0; i < 1000; ++i) partition.set(name(i), "v", 100, i % 2 == 0 ? 110 : 0);
  std::size_t freed = 0;
  for (int i = 0; i < 100; ++i) freed += partition->crawl(64, 120);
  EXPECT_EQ(freed, 500u);
  EXPECT_EQ(partition->stats().items, 500u);
  partition->check_invariants();
}

TEST(Partition, GrowsItsIndexWithoutLosingAnything) {
  TestPartition partition;
  for (int i = 0; i < 20000; ++i) {
    ASSERT_EQ(partition.set(name(i), std::to_string(i)), StoreOutcome::kStored);
    if (i % 2500 == 0) partition->check_invariants();
  }
  for (int i = 0; i < 20000; ++i) ASSERT_EQ(partition.get(name(i)), std::to_string(i));
  EXPECT_GE(partition->stats().index_buckets * 3 / 2, 20000u);
  partition->check_invariants();
}

TEST(Partition, ThrowsOutTheColdestWhenMemoryEnds) {
  TestPartition partition(256 << 10);
  const std::string value(1000, 'v');
  for (int i = 0; i < 100; ++i) partition.set(name(i), value);
  // Read twice, so worth keeping.
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(partition.fetch(name(i)));
  }
  for (int i = 100; i < 400; ++i) ASSERT_EQ(partition.set(name(i), value), StoreOutcome::kStored);
  EXPECT_GT(partition->counters().evicted, 100u);
  int kept = 0;
  for (int i = 0; i < 20; ++i) kept += partition.get(name(i)) == value ? 1 : 0;
  EXPECT_EQ(kept, 20);
  EXPECT_EQ(partition.get(name(50)), "(none)");
  EXPECT_EQ(partition.get(name(399)), value);
  partition->check_invariants();
}

TEST(Partition, RefusesRatherThanThrowOutIfToldSo) {
  TestPartition partition(128 << 10, {.evict = false});
  const std::string value(1000, 'v');
  int stored = 0;
  while (partition.set(name(stored), value) == StoreOutcome::kStored) ++stored;
  EXPECT_GT(stored, 80);
  EXPECT_EQ(partition->counters().evicted, 0u);
  for (int i = 0; i < stored; ++i) EXPECT_EQ(partition.get(name(i)), value);
  // What is replaced by its like needs no more memory.
  EXPECT_EQ(partition.set(name(0), std::string(1000, 'w')), StoreOutcome::kStored);
}

TEST(Partition, RefusesToExtendAnItemBeyondTheLimit) {
  TestPartition partition(1 << 20, {.max_item_bytes = 2048});
  partition.set("k", std::string(1900, 'v'));
  const StoreRequest more{.mode = StoreMode::kAppend,
                          .value =
                              "0123456789012345678901234567890123456789"
                              "0123456789012345678901234567890123456789"
                              "0123456789012345678901234567890123456789"};
  EXPECT_EQ(partition->store(Key("k"), more, 100).outcome, StoreOutcome::kTooLarge);
  EXPECT_EQ(partition.get("k").size(), 1900u);
}

TEST(Partition, GivesMemoryBackWhenAskedToShrink) {
  TestPartition partition(8 << 20);
  for (int i = 0; i < 4000; ++i) partition.set(name(i), std::string(1000, 'v'));
  const std::size_t given = partition->shrink(1 << 20, 100);
  EXPECT_GE(given, 1u << 20);
  EXPECT_TRUE(partition.budget().try_take(1 << 20));
  partition->check_invariants();
}

// The proof that nothing lives outside of the range: the bytes are carried to another
// mapping at the same address, as a move to another process does.
TEST(Partition, GoesOnWhereItsMemoryIsTakenTo) {
  const os::Memfd memfd = os::Memfd::create({.name = "moved", .size = 8 << 20}).value();
  const os::FileMappingOptions options{.bytes = 8 << 20, .protection = os::Protection::kReadWrite};
  MemoryBudget source(4 << 20);
  std::optional<os::Mapping> mapping = os::Mapping::of_file(memfd.fd(), options).value();
  void* address = mapping->data();
  std::uint64_t cas = 0;
  {
    Partition partition = Partition::format(mapping->bytes(), 3, source, {}).value();
    for (int i = 0; i < 5000; ++i) {
      const std::string key = name(i);
      cas = partition.store(Key(key), {.flags = 5, .expires = 1000, .value = key}, 100).cas;
    }
  }
  EXPECT_TRUE(source.try_take(4 << 20)) << "the source has its memory back";
  mapping.reset();
  os::FileMappingOptions again = options;
  again.at = address;
  mapping = os::Mapping::of_file(memfd.fd(), again).value();
  MemoryBudget target(4 << 20);
  Partition partition = Partition::adopt(mapping->bytes(), target, {}).value();
  partition.check_invariants();
  EXPECT_EQ(partition.id(), 3u);
  EXPECT_FALSE(target.try_take(4 << 20)) << "the target pays for it";
  for (int i = 0; i < 5000; ++i) {
    const std::string key = name(i);
    const Item* item = partition.find(Key(key), 100);
    ASSERT_NE(item, nullptr);
    EXPECT_EQ(item->value(), key);
    EXPECT_EQ(item->flags(), 5u);
  }
  EXPECT_EQ(partition.store(Key("next"), {.value = "v"}, 100).cas, cas + 1);
}

TEST(Partition, AdoptsOnlyWhatIsAPartitionOfItsAddress) {
  TestPartition partition;
  MemoryBudget budget(1 << 20);
  EXPECT_TRUE(Partition::adopt(partition.range(), budget, {}));
  EXPECT_EQ(Partition::adopt(partition.range().first(1 << 20), budget, {}).error(), ErrorCode::kCorrupt);
  const os::Mapping zeros = os::Mapping::anonymous({.bytes = 1 << 20}).value();
  EXPECT_EQ(Partition::adopt(zeros.bytes(), budget, {}).error(), ErrorCode::kCorrupt);
}

TEST(Partition, CountsWhatWasAskedForTooLate) {
  TestPartition partition;
  partition->store(Key("e"), {.expires = 200, .value = "v"}, 100);
  EXPECT_EQ(partition->find(Key("e"), 300), nullptr);
  EXPECT_EQ(partition->counters().found_expired, 1u);
  partition->store(Key("f"), {.value = "v"}, 300);
  partition->flush(300, 300);
  EXPECT_EQ(partition->find(Key("f"), 300), nullptr);
  EXPECT_EQ(partition->counters().found_flushed, 1u);
  EXPECT_EQ(partition->counters().found_expired, 1u);
  EXPECT_EQ(partition->find(Key("never"), 300), nullptr);
  EXPECT_EQ(partition->counters().reclaimed, 0u);
  // A new value in place of one that is gone takes its memory.
  partition->store(Key("r"), {.expires = 400, .value = "v"}, 300);
  partition->store(Key("r"), {.value = "w"}, 500);
  EXPECT_EQ(partition->counters().reclaimed, 1u);
  EXPECT_EQ(partition->counters().found_expired, 2u);
  partition->check_invariants();
}

TEST(Partition, WhatNobodyReadsForLongDoesNotStayHot) {
  TestPartition partition;
  for (int i = 0; i < 20; ++i) partition->store(Key(name(i)), {.value = "v"}, 100);
  const auto in = [&](Segment segment) {
    return partition->stats().segment_items[static_cast<std::size_t>(segment)];
  };
  ASSERT_GT(in(Segment::kHot), 0u);
  partition->age(100);  // All are equally old.
  ASSERT_GT(in(Segment::kHot), 0u);
  partition->store(Key("new"), {.value = "v"}, 1000);
  // The coldest was not read for 910 s: a fifth of that is too long for a hot one.
  partition->age(1010);
  EXPECT_EQ(in(Segment::kHot), 1u);
  EXPECT_EQ(in(Segment::kCold), 20u);
  partition->check_invariants();
}

}  // namespace
}  // namespace yonder::cache
