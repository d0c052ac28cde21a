// The hash table with write-back, on every provider.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/structures/hash_table.h"
#include "yonder/structures/suite/table_suite.h"
#include "yonder/testing/patience.h"
#include "yonder/testing/seed.h"

namespace yonder::structures::suite {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

fabric::Task<void> sleep(fabric::Scheduler& scheduler) { co_await scheduler.sleep_for(microseconds(200)); }

// Held until somebody flushes.
constexpr FrontEndOptions kHeld{.together = 1000, .write_back = seconds(100)};

TEST_P(TableSuite, HotPutsAreHeldBackSeenHereAndFlushed) {
  make();
  remote::suite::Client& client = connect();
  const auto table = open(client, kHeld);
  const auto other = open();
  TableVersion last = 1;
  int puts = 0;
  for (; puts < 20 && last != 0; ++puts) {
    const auto put = table->put(bytes_of("hot"), bytes_of(std::to_string(puts)));
    ASSERT_TRUE(put) << put.error();
    last = *put;
  }
  ASSERT_EQ(last, 0u) << "a bucket that is changed often is hot";
  EXPECT_EQ(find(*table, "hot"), std::to_string(puts - 1)) << "its own, pending";
  EXPECT_EQ(find(*other, "hot"), std::to_string(puts - 2)) << "not there yet";
  for (int i = 0; i < 40; ++i) {  // Of all buckets, that of the hot key among them.
    EXPECT_EQ(table->erase(bytes_of(std::to_string(i))).error(), ErrorCode::kNotFound) << "others go on";
  }
  ASSERT_TRUE(table->flush());
  EXPECT_EQ(find(*other, "hot"), std::to_string(puts - 1));
  EXPECT_EQ(find(*table, "hot"), std::to_string(puts - 1));
  ASSERT_TRUE(table->flush()) << "nothing to do";
}

TEST_P(TableSuite, AHeldPutThatFailsIsSaidByFlush) {
  make();
  remote::suite::Client& client = connect();
  const auto table = open(client, kHeld);
  TableVersion last = 1;
  for (int i = 0; i < 20 && last != 0; ++i) last = table->put(bytes_of("hot"), bytes_of("x")).value();
  ASSERT_EQ(last, 0u);
  client.endpoint().close();
  EXPECT_FALSE(table->flush());
  EXPECT_TRUE(table->flush()) << "said once";
}

TEST_P(TableSuite, HeldPutsLeaveWhenThereAreEnoughOrTheirTimeHasCome) {
  make();
  remote::suite::Client& client = connect();
  const auto by_number = open(client, {.together = 4, .write_back = seconds(100)});
  const auto by_time = open(client, {.together = 1000, .write_back = milliseconds(2)});
  const auto other = open();
  ASSERT_NE(by_number->put(bytes_of("a"), bytes_of("through")).value(), 0u);
  ASSERT_NE(by_time->put(bytes_of("b"), bytes_of("through")).value(), 0u);
  for (int i = 0; i < 4; ++i)
    ASSERT_EQ(by_number->put(bytes_of("a"), bytes_of(std::to_string(i))).value(), 0u);
  ASSERT_EQ(by_time->put(bytes_of("b"), bytes_of("late")).value(), 0u);
  const Deadline patience = within(::yonder::testing::kPatience);
  const auto is_seen = [&](const char* key, const char* value) {
    while (find(*other, key) != value) {
      if (patience.passed(client.port().clock().now())) return false;
      client.port().run(sleep(client.scheduler()));
    }
    return true;
  };
  EXPECT_TRUE(is_seen("a", "3"));
  EXPECT_TRUE(is_seen("b", "late"));
  EXPECT_TRUE(by_number->flush());
  EXPECT_TRUE(by_time->flush());
}

TEST_P(TableSuite, WhatFollowsAHeldPutComesAfterItAlsoWhenTheTableHasGrown) {
  make();
  remote::suite::Client& client = connect();
  const auto table = open(client, kHeld);
  const auto other = open();
  ASSERT_NE(table->put(bytes_of("k"), bytes_of("through")).value(), 0u);
  ASSERT_EQ(table->put(bytes_of("k"), bytes_of("held")).value(), 0u);
  ASSERT_TRUE(table->grow());
  EXPECT_EQ(find(*table, "k"), "held") << "its own";
  EXPECT_EQ(find(*other, "k"), "through");
  // Nobody waits behind what is held: it leaves, and first.
  EXPECT_EQ(table->insert(bytes_of("k"), bytes_of("x")).error(), ErrorCode::kAlreadyExists);
  EXPECT_EQ(find(*other, "k"), "held");
  ASSERT_TRUE(table->put(bytes_of("k"), bytes_of("again")));
  ASSERT_TRUE(table->grow());
  ASSERT_TRUE(table->put(bytes_of("k"), bytes_of("last")));
  ASSERT_TRUE(table->flush());
  EXPECT_EQ(find(*other, "k"), "last");
}

TEST_P(TableSuite, AFrontEndThatHoldsPutsBackAgreesWithAMap) {
  make();
  Prng random(::yonder::testing::test_seed());
  const auto table = open({.chunk_bytes = 4096,
                           .together = 1 + static_cast<std::uint32_t>(random.below(20)),
                           .write_back = microseconds(1 + random.below(3000)),
                           .kept_images = static_cast<std::uint32_t>(random.below(60))});
  const auto other = open();
  std::map<std::string, std::string> model;
  int grown = 0;
  for (int i = 0; i < 600; ++i) {
    const std::string key = std::to_string(random.below(50));
    const std::string value(random.below(30), static_cast<char>('a' + random.below(26)));
    const bool exists = model.contains(key);
    const std::uint64_t dice = random.below(100);
    if (dice < 50) {
      ASSERT_TRUE(table->put(bytes_of(key), bytes_of(value)));
      model[key] = value;
    } else if (dice < 60) {
      EXPECT_EQ(table->insert(bytes_of(key), bytes_of(value)).has_value(), !exists);
      model.emplace(key, value);
    } else if (dice < 70) {
      EXPECT_EQ(table->erase(bytes_of(key)).has_value(), exists);
      model.erase(key);
    } else if (dice < 97) {
      EXPECT_EQ(find(*table, key), exists ? model[key] : "NotFound") << "step " << i << ", key " << key;
    } else if (dice < 99) {
      ASSERT_TRUE(table->flush());
      EXPECT_EQ(find(*other, key), exists ? model[key] : "NotFound") << "flushed";
    } else if (grown++ < 3) {  // The memory of the test is small.
      ASSERT_TRUE(table->grow());
    }
  }
  ASSERT_TRUE(table->flush());
  std::map<std::string, std::string> found;
  for (ScanCursor cursor; !cursor.done;) {
    const auto entries = other->scan(cursor);
    ASSERT_TRUE(entries) << entries.error();
    for (const ScannedEntry& entry : *entries) found[text_of(entry.key)] = text_of(entry.value);
  }
  EXPECT_EQ(found, model);
}

}  // namespace
}  // namespace yonder::structures::suite
