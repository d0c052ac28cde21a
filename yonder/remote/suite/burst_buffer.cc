// Small writes that are held back and leave together.
#include "yonder/remote/burst_buffer.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "yonder/remote/suite/burst_bed.h"

namespace yonder::remote::suite {
namespace {

using namespace std::chrono_literals;

// Nothing leaves by itself.
constexpr Duration kLong = 60s;

std::vector<std::byte> filled(std::size_t bytes, int value) {
  return std::vector<std::byte>(bytes, static_cast<std::byte>(value));
}

TEST_P(BurstSuite, ChangesAreHeldUntilThereAreEnough) {
  for (const bool sole : {false, true}) {
    BurstBuffer& buffer = make({.threshold = 4, .lease = kLong, .sole_writer = sole});
    BurstWriter writer = buffer.writer();
    const auto bytes = filled(32, sole ? 2 : 1);
    const std::uint64_t base = sole ? 2048 : 0;
    for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(writer.write(base + i * 64, bytes));
    EXPECT_EQ(buffer.pending(), 1U);
    EXPECT_FALSE(target_has(base, bytes));
    ASSERT_TRUE(writer.write(base + 3 * 64, bytes));
    EXPECT_EQ(buffer.pending(), 0U);
    for (std::uint64_t i = 0; i < 4; ++i) EXPECT_TRUE(target_has(base + i * 64, bytes));
    // One request for the hull, or one for each run.
    EXPECT_EQ(buffer.stats().requests, sole ? 1U : 4U);
    buffer_.reset();
  }
}

TEST_P(BurstSuite, ALeaseMakesABurstLeave) {
  BurstBuffer& buffer = make({.lease = 500us});
  BurstWriter writer = buffer.writer();
  const auto bytes = filled(10, 3);
  ASSERT_TRUE(writer.write(100, bytes));
  // The sweeper ends when nothing waits.
  ASSERT_TRUE(client_->scheduler().run(client_->port().deadline({})));
  EXPECT_TRUE(target_has(100, bytes));
  EXPECT_EQ(buffer.pending(), 0U);
}

TEST_P(BurstSuite, ReadsSeeWhatWaits) {
  for (const bool sole : {false, true}) {
    BurstBuffer& buffer = make({.lease = kLong, .sole_writer = sole});
    std::fill(memory().begin(), memory().end(), std::byte{9});
    BurstWriter writer = buffer.writer();
    ASSERT_TRUE(writer.write(1000, filled(100, 4)));  // Over the end of a region.
    std::vector<std::byte> got(200);
    ASSERT_TRUE(buffer.read(950, got));
    std::vector<std::byte> want(200, std::byte{9});
    std::fill_n(want.begin() + 50, 100, std::byte{4});
    EXPECT_EQ(got, want);
    ASSERT_TRUE(buffer.flush());
    ASSERT_TRUE(buffer.read(950, got));
    EXPECT_EQ(got, want);
    buffer_.reset();
  }
}

TEST_P(BurstSuite, AFlushOfARangeLeavesTheRest) {
  BurstBuffer& buffer = make({.lease = kLong});
  BurstWriter writer = buffer.writer();
  const auto bytes = filled(8, 5);
  ASSERT_TRUE(writer.write(0, bytes));
  ASSERT_TRUE(writer.write(4096, bytes));
  ASSERT_TRUE(buffer.flush({.offset = 4000, .bytes = 100}));
  EXPECT_TRUE(target_has(4096, bytes));
  EXPECT_FALSE(target_has(0, bytes));
  EXPECT_EQ(buffer.pending(), 1U);
}

TEST_P(BurstSuite, MemoryIsBoundedByTheOldestLeaving) {
  for (const bool sole : {false, true}) {
    BurstBuffer& buffer = make({.region_bytes = 256, .lease = kLong, .max_regions = 4, .sole_writer = sole});
    BurstWriter writer = buffer.writer();
    const auto bytes = filled(16, sole ? 7 : 6);
    for (std::uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(writer.write(i * 256 + 8, bytes));
    EXPECT_LE(buffer.pending(), 4U);
    for (std::uint64_t i = 0; i < 16; ++i) EXPECT_TRUE(target_has(i * 256 + 8, bytes)) << i;
    EXPECT_FALSE(target_has(19 * 256 + 8, bytes));
    ASSERT_TRUE(buffer.close());
    for (std::uint64_t i = 16; i < 20; ++i) EXPECT_TRUE(target_has(i * 256 + 8, bytes)) << i;
    buffer_.reset();
  }
}

TEST_P(BurstSuite, ClosingLosesNothingAndEndsWriting) {
  BurstBuffer& buffer = make({.lease = kLong});
  BurstWriter writer = buffer.writer();
  const auto bytes = filled(50, 8);
  for (std::uint64_t i = 0; i < 30; ++i) ASSERT_TRUE(writer.write(i * 3000, bytes));
  ASSERT_TRUE(buffer.close());
  for (std::uint64_t i = 0; i < 30; ++i) EXPECT_TRUE(target_has(i * 3000, bytes));
  EXPECT_EQ(writer.write(0, bytes).error(), ErrorCode::kClosed);
  std::vector<std::byte> out(1);
  EXPECT_EQ(buffer.read(0, out).error(), ErrorCode::kClosed);
}

TEST_P(BurstSuite, OthersBytesAreLeftAloneUnlessWeAreTheSoleWriter) {
  BurstBuffer& buffer = make({.lease = kLong});
  BurstWriter writer = buffer.writer();
  ASSERT_TRUE(writer.write(0, filled(8, 1)));
  ASSERT_TRUE(writer.write(100, filled(8, 1)));
  memory()[50] = std::byte{77};  // Somebody else.
  ASSERT_TRUE(buffer.flush());
  EXPECT_EQ(memory()[50], std::byte{77});
  EXPECT_TRUE(target_has(100, filled(8, 1)));
}

TEST_P(BurstSuite, OnlyHintedRangesAreHeldIfThatIsAsked) {
  BurstBuffer& buffer = make({.lease = kLong, .hold = Hold::kHinted, .max_hints = 1});
  BurstWriter writer = buffer.writer();
  const auto bytes = filled(8, 2);
  ASSERT_TRUE(buffer.hint({.offset = 2048, .bytes = 1}));
  EXPECT_EQ(buffer.hint({.offset = 0, .bytes = 1}).error(), ErrorCode::kResourceExhausted);
  ASSERT_TRUE(writer.write(0, bytes));
  EXPECT_TRUE(target_has(0, bytes));
  ASSERT_TRUE(writer.write(2048 + 500, bytes));
  EXPECT_FALSE(target_has(2048 + 500, bytes));
  EXPECT_EQ(buffer.pending(), 1U);
  EXPECT_EQ(buffer.stats().through, 1U);
}

TEST_P(BurstSuite, AFailureIsToldToThoseWhoseWritesWereInIt) {
  // The token promises more than there is: what lies beyond fails at the target.
  BurstBuffer& buffer = make({.lease = kLong}, kRegionBytes + 4096);
  BurstWriter unlucky = buffer.writer();
  BurstWriter lucky = buffer.writer();
  BurstWriter idle = buffer.writer();
  const auto bytes = filled(8, 3);
  ASSERT_TRUE(unlucky.write(kRegionBytes + 8, bytes));
  ASSERT_TRUE(unlucky.write(0, bytes));
  ASSERT_TRUE(lucky.write(2048, bytes));
  // All leave in one flight; the others' bytes arrive although one burst fails.
  EXPECT_FALSE(buffer.flush());
  EXPECT_EQ(buffer.stats().failed, 1U);
  EXPECT_TRUE(target_has(0, bytes));
  EXPECT_TRUE(target_has(2048, bytes));
  EXPECT_FALSE(unlucky.flush());
  EXPECT_TRUE(unlucky.flush());  // Told once.
  EXPECT_TRUE(lucky.flush());
  EXPECT_TRUE(idle.flush());
}

TEST_P(BurstSuite, AFailedBurstIsToldByTheNextWriteAsWell) {
  BurstBuffer& buffer = make({.threshold = 2, .lease = kLong}, kRegionBytes + 4096);
  BurstWriter writer = buffer.writer();
  const auto bytes = filled(8, 3);
  ASSERT_TRUE(writer.write(kRegionBytes, bytes));
  EXPECT_FALSE(writer.write(kRegionBytes + 64, bytes));  // Makes it leave.
  EXPECT_TRUE(writer.write(0, bytes));
}

TEST_P(BurstSuite, WhatIsOutsideIsRefused) {
  BurstBuffer& buffer = make({.lease = kLong});
  BurstWriter writer = buffer.writer();
  EXPECT_EQ(writer.write(kRegionBytes - 4, filled(8, 1)).error(), ErrorCode::kOutOfBounds);
  EXPECT_EQ(writer.write(UINT64_MAX, filled(8, 1)).error(), ErrorCode::kOutOfBounds);
  std::vector<std::byte> out(8);
  EXPECT_EQ(buffer.read(kRegionBytes - 4, out).error(), ErrorCode::kOutOfBounds);
  EXPECT_TRUE(writer.write(5, {}));
  EXPECT_EQ(buffer.pending(), 0U);
  EXPECT_EQ(BurstBuffer::create(place_->client_fabric(), client_->port(), token(), {.threshold = 0}).error(),
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace yonder::remote::suite
