// What everybody gets when nothing goes wrong: every entry, once, in its sender's order.
#include <algorithm>

#include "yonder/base/distribution.h"
#include "yonder/base/prng.h"
#include "yonder/structures/suite_shuffle/bed.h"
#include "yonder/testing/effort.h"
#include "yonder/testing/sanitizer.h"
#include "yonder/testing/seed.h"

namespace yonder::structures::suite {
namespace {

using namespace std::chrono_literals;

Records numbered(std::uint32_t sender, std::size_t count, std::size_t value_bytes = 8) {
  Records records;
  for (std::size_t i = 0; i < count; ++i) {
    records.emplace_back("key-" + std::to_string(sender) + "-" + std::to_string(i),
                         std::string(value_bytes, 'v'));
  }
  return records;
}

std::string random_text(Prng& random, std::size_t bytes) {
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

TEST_P(ShuffleSuite, EveryStrategyDeliversEveryEntryOnce) {
  for (const ShuffleStrategy strategy :
       {ShuffleStrategy::kBasic, ShuffleStrategy::kPack, ShuffleStrategy::kGather}) {
    ASSERT_NO_FATAL_FAILURE(gather({.senders = 3, .receivers = 2, .sender = {.strategy = strategy}}));
    shuffle_and_check({numbered(0, 200), numbered(1, 150), numbered(2, 77)});
    TearDown();
    addresses_.clear();
    SetUp();
  }
}

TEST_P(ShuffleSuite, MoreThanTheRingsHoldWaitsForRoom) {
  ASSERT_NO_FATAL_FAILURE(gather({.senders = 2, .receivers = 2, .receiver = {.ring_bytes = 1024}}));
  shuffle_and_check({numbered(0, 500, 100), numbered(1, 500, 100)});
  EXPECT_GT(senders_[0]->stats().waits, 0u) << "20 KB do not fit into two rings of 1 KiB";
}

TEST_P(ShuffleSuite, EmptyKeysValuesAndStreams) {
  ASSERT_NO_FATAL_FAILURE(gather({.senders = 3, .receivers = 1}));
  shuffle_and_check({{{"", ""}, {"k", ""}, {"", "v"}, {"", ""}}, {}, {{"", ""}}});
}

TEST_P(ShuffleSuite, TheLargestEntryFitsAndOneMoreByteDoesNot) {
  for (const ShuffleStrategy strategy : {ShuffleStrategy::kPack, ShuffleStrategy::kGather}) {
    ASSERT_NO_FATAL_FAILURE(gather(
        {.senders = 1, .receivers = 1, .sender = {.strategy = strategy}, .receiver = {.ring_bytes = 2048}}));
    const Record too_large{"k", std::string(1024 - 32, 'x')};
    const auto refused = senders_[0]->try_add(entry_of(too_large));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error(), ErrorCode::kLengthInvalid);
    EXPECT_EQ(refused.error().detail(), 1024 - 32);
    const Record largest{"k", std::string(1024 - 33, 'x')};
    shuffle_and_check({{largest, {"a", "b"}, largest, largest, {"c", ""}, largest}});
    TearDown();
    addresses_.clear();
    SetUp();
  }
}

TEST_P(ShuffleSuite, APartitionerOfTheUserDecides) {
  const auto last_letter = [](const ShuffleEntry& entry, std::uint32_t receivers) {
    return static_cast<std::uint32_t>(entry.key.back()) % receivers;
  };
  ASSERT_NO_FATAL_FAILURE(gather({.senders = 2, .receivers = 3, .sender = {.partitioner = last_letter}}));
  shuffle_and_check({numbered(0, 100), numbered(1, 100)});
}

Task<void> send_rounds(ShuffleSender& sender, std::uint32_t index, std::uint32_t rounds, Deadline deadline,
                       Result<void>& outcome) {
  for (std::uint32_t round = 0; round < rounds; ++round) {
    const std::string text = std::to_string(round);
    for (std::uint32_t i = 0; i < 20 * (index + 1); ++i) {
      outcome = co_await sender.async_add({.key = bytes_of(text), .value = bytes_of(text)}, deadline);
      if (!outcome) co_return;
    }
    outcome = co_await sender.async_end_round(deadline);
    if (!outcome) co_return;
  }
  outcome = co_await sender.async_finish(deadline);
}

// How many entries of each round came before its end; an entry of another round is -1.
Task<void> take_rounds(ShuffleReceiver& receiver, std::vector<int>& entries, Deadline deadline,
                       Result<void>& outcome) {
  std::uint32_t round = 0;
  entries.assign(1, 0);
  for (;;) {
    Result<ShuffleBatch> batch = co_await receiver.async_next(deadline);
    if (!batch) {
      outcome = std::unexpected(batch.error());
      co_return;
    }
    if (batch->kind() == ShuffleBatch::Kind::kEndOfStream) break;
    if (batch->is_end()) {
      ++round;
      entries.push_back(0);
    }
    for (const ShuffleEntry entry : *batch) {
      if (text_of(entry.key) == std::to_string(round))
        ++entries[round];
      else
        entries[round] = -1'000'000;
    }
  }
  outcome = co_await receiver.async_finish(deadline);
}

TEST_P(ShuffleSuite, RoundsDoNotMix) {
  constexpr std::uint32_t kRounds = 5;
  const auto everything_to_one = [](const ShuffleEntry&, std::uint32_t) { return 0u; };
  ASSERT_NO_FATAL_FAILURE(gather({.senders = 3,
                                  .receivers = 1,
                                  .sender = {.partitioner = everything_to_one},
                                  .receiver = {.ring_bytes = 1024}}));
  std::vector<Result<void>> outcomes(4);
  std::vector<int> entries;
  std::vector<Task<void>> sending;
  std::vector<Task<void>> taking;
  for (std::uint32_t i = 0; i < 3; ++i)
    sending.push_back(send_rounds(*senders_[i], i, kRounds, soon(), outcomes[i]));
  taking.push_back(take_rounds(*receivers_[0], entries, soon(), outcomes[3]));
  run(std::move(sending), std::move(taking));
  for (const auto& outcome : outcomes) EXPECT_TRUE(outcome) << outcome.error();
  EXPECT_EQ(entries, (std::vector<int>{120, 120, 120, 120, 120, 0}));
}

TEST_P(ShuffleSuite, FlushPutsAnOpenBatchIntoTheReceiversMemory) {
  ASSERT_NO_FATAL_FAILURE(gather({.senders = 1, .receivers = 1, .sender = {.batch_entries = 1000}}));
  const Record record{"key", "value"};
  ASSERT_TRUE(senders_[0]->try_add(entry_of(record)));
  if (!is_virtual()) (void)receivers_[0]->try_next();  // Takes the connection, so that the hello can arrive.
  std::vector<Task<void>> none;
  Harvest harvest(1);
  Result<void> outcome;
  const auto flush_then_finish = [](ShuffleSender& sender, Deadline deadline,
                                    Result<void>& out) -> Task<void> {
    out = co_await sender.async_flush(deadline);
    if (out) out = co_await sender.async_finish(deadline);
  };
  std::vector<Task<void>> sending;
  std::vector<Task<void>> taking;
  sending.push_back(flush_then_finish(*senders_[0], soon(), outcome));
  taking.push_back(take_all(*receivers_[0], harvest, soon()));
  run(std::move(sending), std::move(taking));
  EXPECT_TRUE(outcome) << outcome.error();
  EXPECT_EQ(harvest.of_sender[0], Records{record});
}

// Sizes, skew, crowd, strategy and memory from the seed.
TEST_P(ShuffleSuite, RandomEntriesArriveOnceAndInOrder) {
  Prng random(testing::test_seed());
  const std::uint64_t runs = testing::scaled<std::uint64_t>(6, 3) * testing::test_effort();
  for (std::uint64_t i = 0; i < runs; ++i) {
    Crowd crowd{.senders = static_cast<std::uint32_t>(random.between(1, 5)),
                .receivers = static_cast<std::uint32_t>(random.between(1, 5))};
    crowd.receiver.ring_bytes = std::uint64_t{1024} << random.below(5);
    crowd.sender.strategy = static_cast<ShuffleStrategy>(random.below(3));
    crowd.sender.batch_entries = static_cast<std::uint32_t>(random.between(1, 40));
    crowd.sender.batch_bytes = random.below(2) * random.below(crowd.receiver.ring_bytes);
    crowd.sender.in_flight = static_cast<std::uint32_t>(random.between(1, 20));
    ASSERT_NO_FATAL_FAILURE(gather(crowd));
    const Zipfian keys({.items = 50, .theta = 0.5 + random.uniform_double()});
    const std::uint64_t largest = random.chance(0.5) ? 24 : crowd.receiver.ring_bytes / 2 - 64;
    std::vector<Records> inputs(crowd.senders);
    for (Records& records : inputs) {
      const std::uint64_t count = random.below(300);
      const bool uniform = random.chance(0.3);
      for (std::uint64_t e = 0; e < count; ++e) {
        const std::string key =
            uniform ? std::string(8, static_cast<char>(keys.next(random)))
                    : std::string(1 + keys.next(random) % 30, static_cast<char>(keys.next(random)));
        records.emplace_back(key, random_text(random, uniform ? 16 : random.below(largest)));
      }
    }
    shuffle_and_check(inputs);
    TearDown();
    addresses_.clear();
    SetUp();
  }
}

}  // namespace
}  // namespace yonder::structures::suite
