#include "yonder/structures/internal/log_unit.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/testing/seed.h"

namespace yonder::structures::internal {
namespace {

using Bytes = std::vector<std::byte>;

// Random records, and the bytes they need.
struct Sample {
  explicit Sample(Prng& random) {
    const std::size_t count = 1 + random.below(20);
    for (std::size_t i = 0; i < count; ++i) {
      records.emplace_back(random.below(100));
      for (std::byte& b : records.back()) b = static_cast<std::byte>(random());
      bytes += 4 + static_cast<std::uint32_t>(records.back().size());
    }
    for (const Bytes& record : records) spans.emplace_back(record);
  }
  std::vector<Bytes> records;
  std::vector<std::span<const std::byte>> spans;
  std::uint32_t bytes = 0;
};

TEST(LogUnit, IsTheSameWhetherItsRecordsAreCopiedOrGathered) {
  Prng random(testing::test_seed());
  for (int round = 0; round < 200; ++round) {
    const Sample sample(random);
    Bytes packed(4096);
    Bytes front(4096);
    const auto whole = UnitWriter(77, sample.bytes, sample.spans, packed).pack();
    std::array<fabric::LocalPiece, 32> pieces;
    const std::size_t count =
        UnitWriter(77, sample.bytes, sample.spans, front).gather(pieces, {.value = 1}, {.value = 2});
    Bytes gathered;
    for (const fabric::LocalPiece& piece : std::span(pieces).first(count)) {
      gathered.insert(gathered.end(), piece.data, piece.data + piece.length);
    }
    ASSERT_EQ(gathered, Bytes(whole.begin(), whole.end()));
    std::vector<std::span<const std::byte>> found;
    ASSERT_TRUE(parse_unit(77, packed, found));
    ASSERT_EQ(found.size(), sample.records.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(Bytes(found[i].begin(), found[i].end()), sample.records[i]);
    }
  }
}

TEST(LogUnit, EveryChangedByteIsNoticed) {
  Prng random(testing::test_seed());
  const Sample sample(random);
  Bytes buffer(4096);
  const std::size_t length = UnitWriter(5, sample.bytes, sample.spans, buffer).pack().size();
  std::vector<std::span<const std::byte>> found;
  EXPECT_EQ(parse_unit(6, buffer, found).error(), ErrorCode::kCorrupt) << "of another slot";
  EXPECT_EQ(parse_unit(5, std::span(buffer).first(length - 1), found).error(), ErrorCode::kCorrupt);
  EXPECT_EQ(parse_unit(5, std::span(buffer).first(10), found).error(), ErrorCode::kCorrupt);
  for (std::size_t i = 0; i < length; ++i) {
    buffer[i] ^= std::byte{0x40};
    EXPECT_EQ(parse_unit(5, buffer, found).error(), ErrorCode::kCorrupt) << i;
    buffer[i] ^= std::byte{0x40};
  }
  EXPECT_TRUE(parse_unit(5, buffer, found));
}

}  // namespace
}  // namespace yonder::structures::internal
