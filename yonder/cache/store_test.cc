#include "yonder/cache/store.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

namespace yonder::cache {
namespace {

std::unique_ptr<Store> make(StoreOptions options) {
  auto store = Store::create(options);
  EXPECT_TRUE(store) << store.error();
  return *std::move(store);
}

StoreOutcome set(Store& store, const std::string& key, const std::string& value) {
  StoreReply reply{StoreOutcome::kNotStored};
  EXPECT_EQ(store.store(Key(key), {.value = value}, 100, reply), Access::kDone);
  return reply.outcome;
}

std::string get(Store& store, const std::string& name) {
  std::string value = "(none)";
  const Key key(name);
  const Access access = store.visit(key, [&](Partition& partition) {
    if (const Item* item = partition.find(key, 100)) value = item->value();
  });
  return access == Access::kDone ? value : "(elsewhere)";
}

TEST(Key, HashAndPartitionAreFixedForEver) {
  // Clients and other servers compute the same: these numbers are part of the format.
  EXPECT_EQ(hash_of("a"), 0xe6c632b61e964e1full);
  EXPECT_EQ(hash_of("user000000000001"), hash_of("user000000000001"));
  EXPECT_EQ(partition_of(0, 128), 0u);
  EXPECT_EQ(partition_of(~0ull, 128), 127u);
  EXPECT_EQ(partition_of(std::uint64_t{5} << 57, 128), 5u);
  EXPECT_EQ(partition_of(~0ull, 1), 0u);
}

TEST(Store, SpreadsKeysOverItsPartitions) {
  const auto store = make({.partitions = 16, .memory_bytes = 32 << 20});
  for (int i = 0; i < 2000; ++i) ASSERT_EQ(set(*store, std::to_string(i), "v"), StoreOutcome::kStored);
  for (std::size_t i = 0; i < 16; ++i) {
    store->visit_partition(i, [](Partition& partition) { EXPECT_GT(partition.stats().items, 50u); });
  }
}

TEST(Store, RefusesOptionsItCannotServe) {
  EXPECT_EQ(Store::create({.partitions = 3}).error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(Store::create({.partitions = 128, .memory_bytes = 1000}).error(), ErrorCode::kResourceExhausted);
}

TEST(Store, OtherPartitionsGiveWayForALargeItem) {
  const auto store = make({.partitions = 64, .memory_bytes = 8 << 20});
  for (int i = 0; i < 20000; ++i) set(*store, "small" + std::to_string(i), std::string(500, 's'));
  // A partition's fair share is 128 KiB; the item is eight times that.
  const std::string large(1 << 20, 'l');
  for (int i = 0; i < 20; ++i) {
    const std::string key = "large" + std::to_string(i);
    ASSERT_EQ(set(*store, key, large), StoreOutcome::kStored) << i;
    EXPECT_EQ(get(*store, key), large);
  }
  for (std::size_t i = 0; i < 64; ++i) {
    store->visit_partition(i, [](Partition& partition) { partition.check_invariants(); });
  }
}

TEST(Store, NeverHoldsMoreThanItsLimit) {
  const auto store = make({.partitions = 8, .memory_bytes = 4 << 20});
  for (int i = 0; i < 30000; ++i) set(*store, std::to_string(i), std::string(i % 900, 'v'));
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    store->visit_partition(i, [&](Partition& partition) { bytes += partition.stats().heap_bytes; });
  }
  EXPECT_LE(bytes, 4u << 20);
  EXPECT_GE(bytes, 3u << 20) << "and uses what it may";
  EXPECT_EQ(store->budget().overdrawn(), 0u);
}

TEST(Store, ShrinksToALowerLimit) {
  const auto store = make({.partitions = 8, .memory_bytes = 16 << 20});
  for (int i = 0; i < 12000; ++i) set(*store, std::to_string(i), std::string(1000, 'v'));
  store->budget().set_limit(8 << 20);
  EXPECT_GT(store->budget().overdrawn(), 0u);
  for (int i = 0; i < 1000 && store->budget().overdrawn() > 0; ++i) store->crawl(100);
  EXPECT_EQ(store->budget().overdrawn(), 0u);
}

TEST(Store, CopiesLongValuesInPiecesAndNoticesChanges) {
  const auto store = make({.partitions = 1, .memory_bytes = 8 << 20});
  const std::string value(300000, 'v');
  set(*store, "k", value);
  std::uint64_t cas = 0;
  store->visit(Key("k"), [&](Partition& partition) { cas = partition.find(Key("k"), 100)->cas; });
  std::string out(value.size(), '\0');
  EXPECT_TRUE(store->copy_long_value(Key("k"), cas, out, 100));
  EXPECT_EQ(out, value);
  set(*store, "k", std::string(300000, 'w'));
  EXPECT_FALSE(store->copy_long_value(Key("k"), cas, out, 100));
}

TEST(Store, LetsPartitionsGoAndComeBack) {
  const auto store = make({.partitions = 4, .memory_bytes = 8 << 20});
  set(*store, "k", "v");
  const std::size_t index = store->partition_of(Key("k"));
  const auto range = store->detach(index, "other:11211");
  ASSERT_TRUE(range);
  EXPECT_EQ(get(*store, "k"), "(elsewhere)");
  EXPECT_FALSE(store->is_local(index));
  EXPECT_EQ(store->owner_of(index), "other:11211");
  EXPECT_EQ(store->detach(index, "").error(), ErrorCode::kNotFound);
  ASSERT_TRUE(store->attach(index, *range));
  EXPECT_EQ(store->attach(index, *range).error(), ErrorCode::kAlreadyExists);
  EXPECT_EQ(get(*store, "k"), "v");
  EXPECT_TRUE(store->is_local(index));
}

TEST(Store, WaitsForAPartitionThatIsArriving) {
  const auto store =
      make({.partitions = 1, .memory_bytes = 8 << 20, .arrival_wait = std::chrono::seconds(20)});
  set(*store, "k", "v");
  const auto range = store->detach(0, "other");
  store->expect(0);
  std::thread bringer([&] { EXPECT_TRUE(store->attach(0, *range)); });
  EXPECT_EQ(get(*store, "k"), "v");
  bringer.join();
}

TEST(Store, GivesUpOnAPartitionThatDoesNotArrive) {
  const auto store =
      make({.partitions = 1, .memory_bytes = 8 << 20, .arrival_wait = std::chrono::milliseconds(5)});
  const auto range = store->detach(0, "");
  store->expect(0);
  EXPECT_EQ(get(*store, "k"), "(elsewhere)");
  EXPECT_TRUE(store->attach(0, *range));
}

}  // namespace
}  // namespace yonder::cache
