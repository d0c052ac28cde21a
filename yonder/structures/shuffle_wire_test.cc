// Batches as bytes: what a builder makes a receiver reads back, and what nobody built
// is refused.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/structures/internal/shuffle_builder.h"
#include "yonder/structures/internal/shuffle_wire.h"
#include "yonder/testing/seed.h"

namespace yonder::structures::internal {
namespace {

using Record = std::pair<std::string, std::string>;

ShuffleEntry entry_of(const Record& record) {
  return {.key = std::as_bytes(std::span(record.first)), .value = std::as_bytes(std::span(record.second))};
}

// The batch as it would lie in the ring.
std::vector<std::byte> join(std::span<const fabric::LocalPiece> pieces) {
  std::vector<std::byte> bytes;
  for (const auto& piece : pieces) bytes.insert(bytes.end(), piece.data, piece.data + piece.length);
  return bytes;
}

std::vector<std::byte> build(const std::vector<Record>& records, bool gather, std::uint64_t ticket = 7) {
  std::vector<std::byte> place(1 << 16);
  BatchBuilder builder({.gather = gather, .max_entries = 1000, .max_pieces = 1000});
  builder.open(place);
  for (const Record& record : records) EXPECT_TRUE(builder.try_add(entry_of(record)));
  return join(builder.seal(ticket));
}

std::vector<Record> read(std::span<const std::byte> bytes, std::uint64_t ticket = 7) {
  const auto header = ShuffleBatchParser::check_header(bytes, ticket, bytes.size());
  EXPECT_TRUE(header) << header.error();
  if (!header) return {};
  const auto batch = ShuffleBatchParser::parse(bytes, *header, 3);
  EXPECT_TRUE(batch) << batch.error();
  std::vector<Record> records;
  if (!batch) return records;
  EXPECT_EQ(batch->sender(), 3u);
  for (const ShuffleEntry entry : *batch) {
    records.emplace_back(std::string(reinterpret_cast<const char*>(entry.key.data()), entry.key.size()),
                         std::string(reinterpret_cast<const char*>(entry.value.data()), entry.value.size()));
  }
  return records;
}

TEST(ShuffleWire, PackedAndGatheredBatchesAreTheSameBytes) {
  const std::vector<std::vector<Record>> cases = {
      {{"key", "value"}}, {{"", ""}}, {{"a", "bb"}, {"ccc", ""}, {"", "dddd"}}, {{"ab", "c"}, {"de", "f"}}};
  for (const auto& records : cases) {
    const auto packed = build(records, false);
    EXPECT_EQ(packed, build(records, true));
    EXPECT_EQ(packed.size() % kBatchAlignment, 0u);
    EXPECT_EQ(read(packed), records);
  }
}

TEST(ShuffleWire, EntriesOfOneSizeNeedNoDirectory) {
  const std::vector<Record> records(16, {"12345678", "12345678"});
  EXPECT_EQ(build(records, false).size(), sizeof(BatchHeader) + 16 * 16);
}

TEST(ShuffleWire, NeighboursInMemoryAreOnePiece) {
  std::vector<std::byte> place(4096);
  const std::string memory(160, 'm');
  BatchBuilder builder({.gather = true, .max_entries = 20, .max_pieces = 5});
  builder.open(place);
  const auto bytes = std::as_bytes(std::span(memory));
  for (std::size_t i = 0; i < 10; ++i) {
    ASSERT_TRUE(builder.try_add({.key = bytes.subspan(i * 16, 8), .value = bytes.subspan(i * 16 + 8, 8)}));
  }
  EXPECT_EQ(builder.seal(1).size(), 2u) << "the header and the ten entries; 32 + 160 needs no filling";
}

TEST(ShuffleWire, ABatchEndsAtItsPlaceItsEntriesAndItsPieces) {
  std::vector<std::byte> place(128);
  const Record record{"12345678", "12345678"};
  BatchBuilder small({.max_entries = 100});
  small.open(place);
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(small.try_add(entry_of(record)));  // 32 + 6 × 16 = 128
  EXPECT_FALSE(small.try_add(entry_of(record)));
  BatchBuilder few({.max_entries = 2});
  few.open(place);
  ASSERT_TRUE(few.try_add(entry_of(record)) && few.try_add(entry_of(record)));
  EXPECT_FALSE(few.try_add(entry_of(record)));
  BatchBuilder scattered({.gather = true, .max_entries = 100, .max_pieces = 4});
  scattered.open(place);
  ASSERT_TRUE(scattered.try_add(entry_of(record))) << "header, key, value, filling";
  EXPECT_FALSE(scattered.try_add(entry_of(record)));
}

TEST(ShuffleWire, ABatchThatIsNotTheNextOneIsRefused) {
  const auto bytes = build({{"key", "value"}}, false, 41);
  EXPECT_TRUE(ShuffleBatchParser::check_header(bytes, 41, bytes.size()));
  EXPECT_EQ(ShuffleBatchParser::check_header(bytes, 42, bytes.size()).error(), ErrorCode::kCorrupt);
  EXPECT_EQ(ShuffleBatchParser::check_header(bytes, 40, bytes.size()).error(), ErrorCode::kCorrupt);
}

TEST(ShuffleWire, EmptyEntriesWithoutNumberAreRefused) {
  std::vector<std::byte> bytes = build({{"", ""}}, false);
  const auto announce = [&bytes](std::uint32_t count) { std::memcpy(&bytes[12], &count, sizeof count); };
  announce(kMaxBatchEntries);
  EXPECT_TRUE(ShuffleBatchParser::check_header(bytes, 7, bytes.size()));
  announce(kMaxBatchEntries + 1);
  EXPECT_EQ(ShuffleBatchParser::check_header(bytes, 7, bytes.size()).error(), ErrorCode::kCorrupt);
}

// Whatever a peer writes, a receiver reads nothing outside the batch: the sanitizers
// look on.
TEST(ShuffleWire, SpoiltBatchesAreRefusedOrStayInside) {
  Prng random(testing::test_seed());
  for (int i = 0; i < 20'000; ++i) {
    std::vector<Record> records;
    const std::uint64_t count = random.between(1, 6);
    for (std::uint64_t e = 0; e < count; ++e)
      records.emplace_back(std::string(random.below(20), 'k'), std::string(random.below(20), 'v'));
    std::vector<std::byte> bytes = build(records, false);
    const std::uint64_t spots = random.between(1, 3);
    for (std::uint64_t s = 0; s < spots; ++s) {
      // A field as a whole, because one bit of 32 is seldom interesting.
      const std::uint64_t at = 8 + random.below(bytes.size() / 4 - 2) * 4;
      const std::uint32_t value = random.chance(0.5) ? static_cast<std::uint32_t>(random())
                                                     : static_cast<std::uint32_t>(random.below(64));
      std::memcpy(&bytes[at], &value, sizeof value);
    }
    const auto header = ShuffleBatchParser::check_header(bytes, 7, bytes.size());
    if (!header || header->kind != BatchKind::kEntries) continue;
    const auto batch = ShuffleBatchParser::parse(bytes, *header, 0);
    if (!batch) continue;
    std::uint64_t total = 0;
    for (const ShuffleEntry entry : *batch) {
      for (const std::byte byte : entry.key) total += static_cast<std::uint64_t>(byte);
      for (const std::byte byte : entry.value) total += static_cast<std::uint64_t>(byte);
      ASSERT_LE(entry.value.data() + entry.value.size(), bytes.data() + bytes.size());
    }
    ASSERT_LE(total, 255 * bytes.size());
  }
}

TEST(ShuffleWire, AGreetingSurvivesTheWireAndOthersAreRefused) {
  const InboxShape shape{.senders = 3, .ring_bytes = 4096};
  const InboxGreeting greeting{
      .receiver = 2,
      .shape = shape,
      .secret = 99,
      .token = {.key = {5}, .length = shape.total_bytes(), .rights = fabric::Rights::kAll}};
  std::array<std::byte, InboxGreeting::kEncodedBytes> bytes;
  greeting.encode(bytes);
  const auto decoded = InboxGreeting::decode(bytes);
  ASSERT_TRUE(decoded) << decoded.error();
  EXPECT_EQ(decoded->receiver, 2u);
  EXPECT_EQ(decoded->secret, 99u);
  EXPECT_EQ(decoded->token, greeting.token);
  EXPECT_EQ(decoded->shape.total_bytes(), shape.total_bytes());
  EXPECT_EQ(InboxGreeting::decode(std::span(bytes).first(63)).error(), ErrorCode::kProtocolMismatch);
  InboxGreeting small = greeting;
  small.token.length -= 1;
  small.encode(bytes);
  EXPECT_EQ(InboxGreeting::decode(bytes).error(), ErrorCode::kCorrupt) << "rings beyond the region";
  bytes[0] ^= std::byte{1};
  EXPECT_EQ(InboxGreeting::decode(bytes).error(), ErrorCode::kProtocolMismatch);
}

TEST(ShuffleWire, TheHashSpreadsEvenly) {
  std::vector<int> counts(7);
  for (std::uint64_t key = 0; key < 70'000; ++key) {
    const auto bytes = std::as_bytes(std::span(&key, 1));
    const std::uint32_t to = hash_partition(bytes, 7);
    ASSERT_LT(to, 7u);
    ++counts[to];
  }
  // 10,000 each; six standard deviations are 560.
  for (const int count : counts) EXPECT_NEAR(count, 10'000, 560);
}

}  // namespace
}  // namespace yonder::structures::internal
