// The hash table, on every provider.
#include "yonder/structures/hash_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/structures/internal/table_layout.h"
#include "yonder/structures/suite/table_suite.h"
#include "yonder/testing/patience.h"
#include "yonder/testing/seed.h"

namespace yonder::structures::suite {
namespace {

using internal::TableShape;

TEST_P(TableSuite, FindsWhatWasPut) {
  make();
  const auto table = open();
  EXPECT_EQ(find(*table, "a"), "NotFound");
  const TableVersion first = table->put(bytes_of("a"), bytes_of("one")).value();
  EXPECT_EQ(find(*table, "a"), "one");
  EXPECT_EQ(table->insert(bytes_of("a"), bytes_of("x")).error(), ErrorCode::kAlreadyExists);
  EXPECT_EQ(table->update(bytes_of("b"), bytes_of("x")).error(), ErrorCode::kNotFound);
  EXPECT_EQ(table->update_if(bytes_of("a"), first + 1, bytes_of("x")).error(), ErrorCode::kVersionMismatch);
  const TableVersion second = table->update_if(bytes_of("a"), first, bytes_of("two")).value();
  EXPECT_GT(second, first);
  const auto other = open();
  EXPECT_EQ(find(*other, "a"), "two") << "another front end";
  EXPECT_TRUE(other->erase(bytes_of("a")));
  EXPECT_EQ(find(*table, "a"), "NotFound");
  EXPECT_EQ(table->erase(bytes_of("a")).error(), ErrorCode::kNotFound);
  EXPECT_GT(table->insert(bytes_of("a"), bytes_of("three")).value(), second) << "versions never go back";
  EXPECT_EQ(find(*other, "a"), "three");
}

TEST_P(TableSuite, KeysAndValuesMayBeEmptyOrLargeButNotLarger) {
  make();
  const auto table = open();
  EXPECT_TRUE(table->put({}, {}));
  EXPECT_EQ(find(*table, ""), "");
  const std::string key(kMaxKeyBytes, 'k');
  const std::string value(kMaxValueBytes, 'v');
  EXPECT_TRUE(table->put(bytes_of(key), bytes_of(value)));
  EXPECT_EQ(find(*table, key), value);
  EXPECT_EQ(table->put(bytes_of(key + "k"), {}).error(), ErrorCode::kLengthInvalid);
  EXPECT_EQ(table->put({}, bytes_of(value + "v")).error(), ErrorCode::kLengthInvalid);
  EXPECT_EQ(find(*table, key + "k"), "LengthInvalid");
  EXPECT_EQ(table->erase(bytes_of(key + "k")).error(), ErrorCode::kLengthInvalid);
}

TEST_P(TableSuite, AgreesWithAMapWhileItGrows) {
  make();
  Prng random(::yonder::testing::test_seed());
  const auto one = open({.chunk_bytes = 4096, .kept_images = 8});
  const auto other = open({.chunk_bytes = 4096, .consolidate = false});
  std::map<std::string, std::string> expected;
  for (int i = 0; i < 1500; ++i) {
    HashTable& table = random.chance(0.5) ? *one : *other;
    const std::string key = std::to_string(random.below(300));
    const std::string value(random.below(60), static_cast<char>('a' + random.below(26)));
    const bool exists = expected.contains(key);
    switch (random.below(6)) {
      case 0:
      case 1:
        ASSERT_TRUE(table.put(bytes_of(key), bytes_of(value)));
        expected[key] = value;
        break;
      case 2:
        ASSERT_EQ(table.insert(bytes_of(key), bytes_of(value)).has_value(), !exists);
        if (!exists) expected[key] = value;
        break;
      case 3:
        ASSERT_EQ(table.update(bytes_of(key), bytes_of(value)).has_value(), exists);
        if (exists) expected[key] = value;
        break;
      case 4:
        ASSERT_EQ(table.erase(bytes_of(key)).has_value(), exists);
        expected.erase(key);
        break;
      default:
        ASSERT_EQ(find(table, key), exists ? expected[key] : "NotFound");
    }
  }
  for (int i = 0; i < 300; ++i) {
    const std::string key = std::to_string(i);
    ASSERT_EQ(find(*one, key), expected.contains(key) ? expected[key] : "NotFound");
  }
  EXPECT_GT(one->stats().splits + other->stats().splits, 15u) << "it has grown";
  const auto count = static_cast<std::int64_t>(one->size().value());
  EXPECT_LE(std::abs(count - static_cast<std::int64_t>(expected.size())), 64);
}

TEST_P(TableSuite, FindsManyAtOnce) {
  make();
  const auto table = open();
  for (int i = 0; i < 100; ++i)
    ASSERT_TRUE(table->put(bytes_of(std::to_string(i)), bytes_of("v" + std::to_string(i))));
  const auto other = open();
  std::vector<std::string> keys;
  for (int i = 0; i < 120; i += 3) keys.push_back(std::to_string(i));
  keys.push_back(std::string(kMaxKeyBytes + 1, 'x'));
  std::vector<FindItem> items;
  for (const std::string& key : keys) items.push_back({.key = bytes_of(key)});
  ASSERT_TRUE(table->grow()) << "the other front end knows the old array only";
  other->find_many(items);
  for (std::size_t i = 0; i + 1 < items.size(); ++i) {
    if (i * 3 < 100) {
      ASSERT_TRUE(items[i].result) << items[i].result.error();
      EXPECT_EQ(text_of(items[i].value), "v" + keys[i]);
    } else {
      EXPECT_EQ(items[i].result.error(), ErrorCode::kNotFound);
    }
  }
  EXPECT_EQ(items.back().result.error(), ErrorCode::kLengthInvalid);
  other->find_many({});
}

TEST_P(TableSuite, AScanGivesEveryEntryOnceAlsoWhileTheTableGrows) {
  make({.log2_buckets = 7});
  const auto table = open();
  std::map<std::string, std::string> expected;
  for (int i = 0; i < 200; ++i) {
    expected[std::to_string(i)] = std::string(static_cast<std::size_t>(i % 40), 'x');
    ASSERT_TRUE(table->put(bytes_of(std::to_string(i)), bytes_of(expected[std::to_string(i)])));
  }
  std::map<std::string, std::string> seen;
  int steps = 0;
  for (ScanCursor cursor; !cursor.done; ++steps) {
    const auto entries = table->scan(cursor);
    ASSERT_TRUE(entries) << entries.error();
    for (const ScannedEntry& entry : *entries) {
      EXPECT_TRUE(seen.emplace(text_of(entry.key), text_of(entry.value)).second) << "twice";
    }
    if (steps == 0) {
      ASSERT_TRUE(open()->grow());
    }
  }
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(steps, 2);
}

TEST_P(TableSuite, AFullTableRefusesAndGoesOnReading) {
  // The smallest: the last 64 KiB of the memory as space.
  make({.log2_buckets = 16});
  const auto table = open({.chunk_bytes = 4096});
  int made = 0;
  ErrorCode refused = ErrorCode::kOk;
  for (; made < 2000 && refused == ErrorCode::kOk; ++made) {
    const auto put = table->put(bytes_of(std::to_string(made)), bytes_of(std::string(400, 'x')));
    if (!put) refused = put.error().code();
  }
  EXPECT_EQ(refused, ErrorCode::kOutOfMemory);
  EXPECT_GT(made, 100);
  EXPECT_EQ(find(*table, "5"), std::string(400, 'x'));
  EXPECT_EQ(find(*table, std::to_string(made - 1)), "NotFound") << "what was refused is not there";
  // One place is kept for further erases.
  for (int i = 5; i < 15; ++i) ASSERT_TRUE(table->erase(bytes_of(std::to_string(i))));
  bool used_again = false;  // Where a key shares its bucket the image needs a larger place.
  for (int i = 5; i < 15; ++i) {
    used_again |= table->put(bytes_of(std::to_string(i)), bytes_of(std::string(400, 'y'))).has_value();
  }
  EXPECT_TRUE(used_again);
}

TEST_P(TableSuite, SpaceOfFrontEndsThatCloseIsUsedAgain) {
  make();
  remote::suite::Client& client = connect();
  // Each reserves 64 KiB, and there is not a tenth of what all of them take together.
  const std::uint64_t front_ends = 10 * token().length / (64 * 1024);
  for (std::uint64_t i = 0; i < front_ends; ++i) {
    const auto table = open(client, {.chunk_bytes = 64 * 1024});
    const auto put = table->put(bytes_of("key"), bytes_of(std::to_string(i)));
    ASSERT_TRUE(put) << i << ": " << put.error();
    ASSERT_TRUE(table->close());
  }
  EXPECT_EQ(find(*open(), "key"), std::to_string(front_ends - 1));
}

TEST_P(TableSuite, SpaceThatOneFrontEndFreesIsThereForTheOthers) {
  make();
  const auto maker = open({.chunk_bytes = 4096, .max_free_bytes = 8192});
  const auto eraser = open({.chunk_bytes = 4096, .max_free_bytes = 8192});
  // More than the memory in all, a fifth of it at a time.
  const std::string value(1000, 'v');
  const std::uint64_t keys = token().length / value.size() / 5;
  for (int round = 0; round < 12; ++round) {
    for (std::uint64_t i = 0; i < keys; ++i) {
      const auto put = maker->put(bytes_of(std::to_string(i)), bytes_of(value));
      ASSERT_TRUE(put) << "round " << round << ", key " << i << ": " << put.error();
    }
    for (std::uint64_t i = 0; i < keys; ++i) ASSERT_TRUE(eraser->erase(bytes_of(std::to_string(i))));
  }
}

TEST_P(TableSuite, ChangesOfOneBucketLeaveTogether) {
  make();
  remote::suite::Client& client = connect();
  const auto table = open(client);
  constexpr int kChanges = 40;
  int done = 0;
  const auto change = [&](int i) -> Task<void> {
    const std::string text = std::to_string(i);
    const auto put = co_await table->async_put(bytes_of("hot"), bytes_of(text));
    EXPECT_TRUE(put) << put.error();
    ++done;
  };
  for (int i = 0; i < kChanges; ++i) client.scheduler().spawn(change(i));
  ASSERT_TRUE(client.scheduler().run(within(::yonder::testing::kPatience)));
  EXPECT_EQ(done, kChanges);
  EXPECT_EQ(table->stats().changes, std::uint64_t{kChanges});
  EXPECT_LE(table->stats().swaps, 3u);
  EXPECT_EQ(find(*table, "hot"), std::to_string(kChanges - 1)) << "in order";
}

TEST_P(TableSuite, RefusesWhatCannotBe) {
  const remote::Port port = connect().port();
  EXPECT_EQ(HashTable::create(port, token(), {.log2_buckets = 3}).error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(HashTable::create(port, token(), {.log2_buckets = 20}).error(), ErrorCode::kInvalidArgument);
  RegionToken readable = token();
  readable.rights = fabric::Rights::kRead;
  EXPECT_EQ(HashTable::create(port, readable).error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(HashTable::open(place_->client_fabric(), port, token()).error(), ErrorCode::kNotFound);
  ASSERT_TRUE(HashTable::create(port, token()));
  EXPECT_EQ(HashTable::create(port, token()).error(), ErrorCode::kAlreadyExists);
  EXPECT_EQ(HashTable::open(place_->client_fabric(), port, token(), {.chunk_bytes = 100}).error(),
            ErrorCode::kInvalidArgument);
  const auto table = HashTable::open(place_->client_fabric(), port, token()).value();
  ScanCursor foreign{.log2 = 30};
  EXPECT_EQ(table->scan(foreign).error(), ErrorCode::kInvalidArgument);
  std::uint64_t nonsense = 5;
  ASSERT_TRUE(
      port.write(fabric::LocalPiece::of(std::as_bytes(std::span(&nonsense, 1))), at(TableShape::kOffset)));
  EXPECT_EQ(HashTable::open(place_->client_fabric(), port, token()).error(), ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace yonder::structures::suite
