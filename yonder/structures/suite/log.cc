// The log, on every provider.
#include "yonder/structures/log.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/structures/internal/log_layout.h"
#include "yonder/structures/suite/log_suite.h"
#include "yonder/testing/patience.h"
#include "yonder/testing/seed.h"

namespace yonder::structures::suite {
namespace {

using internal::LogShape;
using std::chrono::milliseconds;

TEST_P(LogSuite, GivesBackWhatWasAppendedInOrder) {
  make({.slots = 256});
  const auto log = open();
  EXPECT_EQ(log->append(bytes_of("one")).value(), LogPosition());
  EXPECT_EQ(log->append({}).value(), (LogPosition{.slot = 1})) << "a record may be empty";
  const std::string large(1000, 'x');
  EXPECT_EQ(log->append(bytes_of(large)).value(), (LogPosition{.slot = 2}));
  const std::array<std::span<const std::byte>, 3> batch = {bytes_of("a"), bytes_of(""), bytes_of("ccc")};
  const LogPosition at = log->append_many(batch).value();
  EXPECT_EQ(at, (LogPosition{.slot = 2 + (24 + 4 + 1000 + 63) / 64}));

  const auto other = open();
  const auto reader = other->reader({});
  EXPECT_EQ(read(*reader, 6), (std::vector<std::string>{"one", "", large, "a", "", "ccc"}));
  EXPECT_EQ(reader->next(within(milliseconds(2))).error(), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(reader->position(), log->bounds().value().end);
  const auto rest = other->reader({.slot = at.slot, .index = 2});
  EXPECT_EQ(read(*rest, 1), std::vector<std::string>{"ccc"}) << "from the middle of a unit";
}

TEST_P(LogSuite, GatheredRecordsAreTheSameAsPackedOnes) {
  make({.slots = 256});
  const auto log = open();
  std::vector<std::string> expected;
  for (const LogBatching batching : {LogBatching::kGather, LogBatching::kPack}) {
    for (const std::size_t count : {1, 5, 40}) {  // 40 are too many for one request.
      std::vector<std::string> texts;
      for (std::size_t i = 0; i < count; ++i)
        texts.push_back(std::string(i * 3 % 50, static_cast<char>('a' + i % 26)));
      std::vector<std::span<const std::byte>> records;
      for (const std::string& text : texts) records.push_back(bytes_of(text));
      ASSERT_TRUE(log->append_many(records, {.batching = batching}));
      expected.insert(expected.end(), texts.begin(), texts.end());
    }
  }
  const auto reader = log->reader({});
  EXPECT_EQ(read(*reader, expected.size()), expected);
}

TEST_P(LogSuite, IsUsedAgainBehindTheTrim) {
  make({.slots = 64});
  const auto log = open();
  const auto reader = log->reader({});
  Prng random(::yonder::testing::test_seed());
  std::uint64_t number = 0;
  for (int round = 0; round < 100; ++round) {
    std::vector<std::string> expected;
    const std::uint64_t appends = 1 + random.below(6);
    for (std::uint64_t i = 0; i < appends; ++i) {
      expected.push_back(std::to_string(number++) + std::string(random.below(400), '.'));
      ASSERT_TRUE(log->append(bytes_of(expected.back())));
    }
    ASSERT_EQ(read(*reader, expected.size()), expected);
    ASSERT_EQ(log->trim(reader->position()).value(), reader->position());
  }
  EXPECT_GT(log->bounds().value().end.slot, 3 * 64u) << "several laps";
}

TEST_P(LogSuite, AFullLogRefusesUntilItIsTrimmed) {
  make({.slots = 64});
  const auto log = open();
  for (int i = 0; i < 64; ++i) ASSERT_TRUE(log->append(bytes_of("0123456789")));
  EXPECT_EQ(log->append(bytes_of("x")).error(), ErrorCode::kResourceExhausted);
  EXPECT_EQ(log->append(bytes_of("x")).error(), ErrorCode::kResourceExhausted);
  EXPECT_EQ(log->bounds().value().end.slot, 64u) << "nothing was reserved in vain";
  EXPECT_EQ(log->trim({.slot = 2}).value(), (LogPosition{.slot = 2}));
  EXPECT_EQ(log->append(bytes_of("y")).value(), (LogPosition{.slot = 64}));
  const auto reader = log->reader({.slot = 63});
  EXPECT_EQ(read(*reader, 2), (std::vector<std::string>{"0123456789", "y"}));
}

TEST_P(LogSuite, AReaderThatWasOvertakenByATrimIsTold) {
  make({.slots = 64});
  const auto log = open();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(log->append(bytes_of("a")));
  const auto late = log->reader({.slot = 3});
  ASSERT_TRUE(log->trim({.slot = 10}));
  EXPECT_EQ(late->next(within(::yonder::testing::kPatience)).error(), ErrorCode::kNotFound);
  for (int i = 0; i < 64; ++i) ASSERT_TRUE(log->append(bytes_of("b")));
  EXPECT_EQ(late->next(within(::yonder::testing::kPatience)).error(), ErrorCode::kNotFound) << "overwritten";
  const auto first = log->reader({});
  EXPECT_EQ(read(*first, 64), std::vector<std::string>(64, "b"));
}

TEST_P(LogSuite, TrimStopsAtWhatIsNotWrittenYet) {
  make({.slots = 64});
  const auto log = open();
  ASSERT_TRUE(log->append(bytes_of("a")));
  ASSERT_TRUE(connect().port().fetch_add(at(LogShape::kTailOffset), 2)) << "a writer that is slow";
  ASSERT_TRUE(log->append(bytes_of("b")));
  EXPECT_EQ(log->trim({.slot = 4}).value(), (LogPosition{.slot = 1}));
}

TEST_P(LogSuite, TheHoleOfADeadWriterIsSealed) {
  make({.slots = 64, .lease = milliseconds(50)});
  const auto log = open();
  ASSERT_TRUE(log->append(bytes_of("before")));
  const auto hole = connect().port().fetch_add(at(LogShape::kTailOffset), 3);
  ASSERT_TRUE(hole) << "reserves, and is never seen again";
  ASSERT_TRUE(log->append(bytes_of("after")));
  const auto other = open();
  const auto reader = other->reader({});
  EXPECT_EQ(read(*reader, 2), (std::vector<std::string>{"before", "after"}));
  // More, where this machine was so slow that an append gave its slot up (L4).
  EXPECT_GE(other->stats().sealed, 3u);
  for (std::uint64_t slot = *hole; slot < *hole + 3; ++slot) {
    std::uint64_t word = 0;
    std::memcpy(&word, memory().data() + LogShape::kStatesOffset + 8 * slot, sizeof word);
    EXPECT_EQ(internal::SlotState::of(word).kind, internal::SlotKind::kSealed);
  }
  EXPECT_EQ(log->trim(reader->position()).value(), reader->position());
}

TEST_P(LogSuite, ADamagedUnitIsSaidToBeSoAndCanBeSkipped) {
  make({.slots = 64, .lease = milliseconds(50)});  // How long a reader hopes that it is not damaged.
  const auto log = open();
  ASSERT_TRUE(log->append(bytes_of("first")));
  const auto second = log->append(bytes_of("second"));
  ASSERT_TRUE(second) << second.error();
  ASSERT_TRUE(log->append(bytes_of("third")));
  const std::uint64_t unit = LogShape{.slots = 64, .slot_bytes = 64}.data_begin() + 64 * second->slot;
  ASSERT_TRUE(connect().port().write(fabric::LocalPiece::of(bytes_of("X")), at(unit + 30)));
  const auto reader = log->reader({});
  EXPECT_EQ(read(*reader, 1), std::vector<std::string>{"first"});
  EXPECT_EQ(reader->next(within(::yonder::testing::kPatience)).error(), ErrorCode::kCorrupt);
  EXPECT_EQ(reader->position(), *second);
  reader->skip();
  EXPECT_EQ(read(*reader, 1), std::vector<std::string>{"third"});
}

TEST_P(LogSuite, RefusesWhatCannotBe) {
  const remote::Port port = connect().port();
  EXPECT_EQ(Log::create(port, token(), {.slots = 63}).error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(Log::create(port, token(), {.slot_bytes = 96}).error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(Log::create(port, token(), {.lease = Duration(1)}).error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(Log::create(port, token(), {.slots = 1 << 20}).error(), ErrorCode::kInvalidArgument) << "no room";
  RegionToken readable = token();
  readable.rights = fabric::Rights::kRead;
  EXPECT_EQ(Log::create(port, readable, {.slots = 64}).error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(Log::open(place_->client_fabric(), port, token()).error(), ErrorCode::kNotFound);
  ASSERT_TRUE(Log::create(port, token(), {.slots = 64}));
  EXPECT_EQ(Log::create(port, token(), {.slots = 64}).error(), ErrorCode::kAlreadyExists);
  const auto log = open();
  EXPECT_EQ(log->append_many({}).error(), ErrorCode::kInvalidArgument);
  const std::string fits(log->max_append_bytes() - 4, 'x');
  EXPECT_TRUE(log->append(bytes_of(fits)));
  EXPECT_EQ(log->append(bytes_of(fits + "x")).error(), ErrorCode::kLengthInvalid);
  std::uint64_t nonsense = 5;
  ASSERT_TRUE(port.write(fabric::LocalPiece::of(std::as_bytes(std::span(&nonsense, 1))), at(8)));
  EXPECT_EQ(Log::open(place_->client_fabric(), port, token()).error(), ErrorCode::kCorrupt);
}

// Several clients append at once; every reader sees the same sequence.
TEST_P(LogSuite, ManyWritersMakeOneOrder) {
  make({.slots = 2048});
  constexpr int kWriters = 4;
  constexpr int kAppends = 60;
  std::vector<remote::suite::Client*> clients;
  std::vector<std::unique_ptr<Log>> logs;
  for (int i = 0; i < kWriters; ++i) {
    clients.push_back(&connect());
    logs.push_back(open(*clients.back()));
  }
  std::map<LogPosition, std::string> acknowledged;
  const auto write = [&](Log& log, int writer) -> Task<void> {
    for (int i = 0; i < kAppends; ++i) {
      const std::string text = std::to_string(writer) + ":" + std::to_string(i);
      const auto at = co_await log.async_append(bytes_of(text));
      EXPECT_TRUE(at) << at.error();
      if (at) acknowledged.emplace(*at, text);
    }
  };
  // Where time is real each has a queue of its own, so one runs after the other there;
  // log_stress_test has threads.
  for (int i = 0; i < kWriters; ++i) {
    clients[static_cast<std::size_t>(i)]->scheduler().spawn(write(*logs[static_cast<std::size_t>(i)], i));
  }
  for (remote::suite::Client* client : clients)
    ASSERT_TRUE(client->scheduler().run(within(::yonder::testing::kPatience)));
  std::vector<std::string> expected;
  for (const auto& [at, text] : acknowledged) expected.push_back(text);
  ASSERT_EQ(expected.size(), std::size_t{kWriters * kAppends});
  for (int i = 0; i < 2; ++i) {
    const auto log = open();
    const auto reader = log->reader({});
    EXPECT_EQ(read(*reader, expected.size()), expected);
  }
}

}  // namespace

}  // namespace yonder::structures::suite
