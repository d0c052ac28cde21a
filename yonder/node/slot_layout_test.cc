#include "yonder/node/slot_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/testing/seed.h"

namespace yonder::node {
namespace {

constexpr std::uint32_t kPhases[] = {0, 8, 16, 24, 32, 40, 48, 56};
const HeaderWord kWord = HeaderWord::of(BlockId(77), ObjectId(5), 1000, SlotState::kLive);

// A slot at a chosen phase, with guard bytes around it.
class Place {
 public:
  Place(std::uint32_t phase, std::uint64_t slot_bytes)
      : bytes_(slot_bytes + 3 * kLineBytes, std::byte{0xee}) {
    const auto start = reinterpret_cast<std::uintptr_t>(bytes_.data());
    at_ = (kLineBytes - start % kLineBytes) + kLineBytes + phase;
    size_ = slot_bytes;
    std::fill_n(slot(), size_, std::byte{0});
  }
  std::byte* slot() { return bytes_.data() + at_; }
  std::span<const std::byte> raw(std::uint64_t bytes) { return {slot(), bytes}; }
  void put(HeaderWord word) {
    const std::uint64_t bits = word.bits();
    std::memcpy(slot(), &bits, 8);
  }
  bool guards_whole() const {
    return std::all_of(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(at_), is_guard) &&
           std::all_of(bytes_.begin() + static_cast<std::ptrdiff_t>(at_ + size_), bytes_.end(), is_guard);
  }

 private:
  static bool is_guard(std::byte b) { return b == std::byte{0xee}; }
  std::vector<std::byte> bytes_;
  std::uint64_t at_ = 0;
  std::uint64_t size_ = 0;
};

std::vector<std::byte> random_bytes(Prng& random, std::size_t count) {
  std::vector<std::byte> out(count);
  for (std::byte& b : out) b = static_cast<std::byte>(random());
  return out;
}

class SlotLayoutTest : public ::testing::TestWithParam<Validator> {};
INSTANTIATE_TEST_SUITE_P(All, SlotLayoutTest,
                         ::testing::Values(Validator::kReread, Validator::kLines, Validator::kChecksum));

TEST_P(SlotLayoutTest, GivesBackWhatWasStoredAtEveryPhase) {
  Prng random(::yonder::testing::test_seed());
  for (const std::uint64_t slot_bytes : {16u, 24u, 64u, 72u, 128u, 136u, 1000u, 4096u}) {
    const SlotLayout layout(GetParam(), slot_bytes);
    for (const std::uint32_t phase : kPhases) {
      Place place(phase, slot_bytes);
      const auto data = random_bytes(random, layout.capacity());
      layout.store(place.slot(), kWord, data);
      place.put(kWord);
      std::vector<std::byte> local(data.size());
      layout.load(place.slot(), local);
      EXPECT_EQ(local, data) << slot_bytes << " at " << phase;
      std::vector<std::byte> remote(data.size());
      const auto word = layout.decode(place.raw(layout.raw_bytes(data.size(), phase)), phase, remote);
      ASSERT_TRUE(word);
      EXPECT_EQ(*word, kWord);
      EXPECT_EQ(remote, data);
      EXPECT_LE(layout.raw_bytes(data.size(), phase), slot_bytes);
      EXPECT_TRUE(place.guards_whole());
    }
  }
}

TEST_P(SlotLayoutTest, WritesAPrefixAndKeepsTheRest) {
  Prng random(::yonder::testing::test_seed());
  const SlotLayout layout(GetParam(), 200);
  for (const std::uint32_t phase : kPhases) {
    Place place(phase, 200);
    auto whole = random_bytes(random, layout.capacity());
    layout.store(place.slot(), kWord, whole);
    const HeaderWord next = kWord.written();
    const auto prefix = random_bytes(random, 61);
    layout.store(place.slot(), next, prefix);
    place.put(next);
    std::ranges::copy(prefix, whole.begin());
    std::vector<std::byte> out(whole.size());
    ASSERT_TRUE(layout.decode(place.raw(layout.raw_bytes(out.size(), phase)), phase, out));
    EXPECT_EQ(out, whole);
  }
}

TEST_P(SlotLayoutTest, MovesToEveryOtherPhase) {
  Prng random(::yonder::testing::test_seed());
  for (const std::uint64_t slot_bytes : {72u, 304u}) {
    const SlotLayout layout(GetParam(), slot_bytes);
    for (const std::uint32_t from : kPhases) {
      for (const std::uint32_t to : kPhases) {
        Place source(from, slot_bytes);
        Place target(to, slot_bytes);
        const auto data = random_bytes(random, layout.capacity());
        layout.store(source.slot(), kWord, data);
        layout.move(source.slot(), target.slot(), kWord);
        target.put(kWord);
        std::vector<std::byte> out(data.size());
        ASSERT_TRUE(layout.decode(target.raw(layout.raw_bytes(out.size(), to)), to, out));
        EXPECT_EQ(out, data) << slot_bytes << ": " << from << " to " << to;
        EXPECT_TRUE(target.guards_whole());
      }
    }
  }
}

// A slot that is full of a freed object's bytes, and its next object.
TEST_P(SlotLayoutTest, ShowsZerosOfABlankObjectWhateverLiesInItsSlot) {
  Prng random(::yonder::testing::test_seed());
  const SlotLayout layout(GetParam(), 328);
  const HeaderWord blank = kWord.freed().reused_by(BlockId(3), ObjectId(9)).as_blank();
  for (const std::uint32_t phase : kPhases) {
    Place place(phase, 328);
    layout.store(place.slot(), kWord, random_bytes(random, layout.capacity()));
    place.put(blank);
    std::vector<std::byte> out(layout.capacity(), std::byte{1});
    EXPECT_EQ(layout.decode(place.raw(layout.raw_bytes(out.size(), phase)), phase, out), blank);
    EXPECT_EQ(std::ranges::count(out, std::byte{0}), static_cast<std::ptrdiff_t>(out.size()));
  }
}

TEST_P(SlotLayoutTest, TheFirstWriteLeavesNothingOfTheOldPayload) {
  Prng random(::yonder::testing::test_seed());
  const HeaderWord next = kWord.freed().reused_by(BlockId(3), ObjectId(9)).as_blank().written();
  for (const std::uint64_t slot_bytes : {24u, 64u, 328u}) {
    const SlotLayout layout(GetParam(), slot_bytes);
    for (const std::uint32_t phase : kPhases) {
      for (const std::uint64_t length : {std::uint64_t{0}, std::uint64_t{1}, layout.capacity()}) {
        Place place(phase, slot_bytes);
        layout.store(place.slot(), kWord, random_bytes(random, layout.capacity()));
        auto expected = random_bytes(random, length);
        layout.store_first(place.slot(), next, expected);
        place.put(next);
        expected.resize(layout.capacity());
        std::vector<std::byte> out(layout.capacity(), std::byte{1});
        ASSERT_TRUE(layout.decode(place.raw(layout.raw_bytes(out.size(), phase)), phase, out));
        EXPECT_EQ(out, expected) << slot_bytes << " at " << phase << ", first " << length;
        EXPECT_TRUE(place.guards_whole());
      }
    }
  }
}

TEST(SlotLayout, OnlyMemoryNeverUsedIsAPayloadAsItIs) {
  EXPECT_FALSE(SlotLayout::starts_blank(Validator::kReread, /*fresh=*/true));
  EXPECT_TRUE(SlotLayout::starts_blank(Validator::kReread, /*fresh=*/false));
  EXPECT_TRUE(SlotLayout::starts_blank(Validator::kChecksum, /*fresh=*/true)) << "zeros have a checksum";
  EXPECT_TRUE(SlotLayout::starts_blank(Validator::kLines, /*fresh=*/true)) << "lines have versions";
}

TEST_P(SlotLayoutTest, ShowsWordsThatAreNotReadableWithoutPayload) {
  const SlotLayout layout(GetParam(), 64);
  Place place(0, 64);
  for (const HeaderWord word : {HeaderWord::moved_to(FrameId(3), 4), kWord.with_state(SlotState::kWriting),
                                kWord.freed(), HeaderWord()}) {
    place.put(word);
    std::vector<std::byte> out(8, std::byte{7});
    EXPECT_EQ(layout.decode(place.raw(64), 0, out), word);
    EXPECT_EQ(out[0], std::byte{7});
  }
}

// What a NIC that reads lines whole, in any order, may see of two versions.
TEST(SlotLayoutLines, RejectsAnyMixtureOfLines) {
  Prng random(::yonder::testing::test_seed());
  const SlotLayout layout(Validator::kLines, 320);
  for (const std::uint32_t phase : kPhases) {
    Place old_place(phase, 320);
    Place new_place(phase, 320);
    layout.store(old_place.slot(), kWord, random_bytes(random, layout.capacity()));
    old_place.put(kWord);
    layout.store(new_place.slot(), kWord.written(), random_bytes(random, layout.capacity()));
    new_place.put(kWord.written());
    const std::uint64_t lines = (phase + 320 + kLineBytes - 1) / kLineBytes;
    for (std::uint64_t mask = 1; mask + 1 < (1u << lines); ++mask) {
      std::vector<std::byte> mixed(320);
      for (std::uint64_t i = 0; i < 320; ++i) {
        const bool newer = ((mask >> ((i + phase) / kLineBytes)) & 1) != 0;
        mixed[i] = newer ? new_place.slot()[i] : old_place.slot()[i];
      }
      std::vector<std::byte> out(layout.capacity());
      const std::uint64_t end = layout.raw_bytes(out.size(), phase);
      if ((end + phase + kLineBytes - 1) / kLineBytes != lines) continue;  // The last line is not read.
      EXPECT_FALSE(layout.decode(mixed, phase, out)) << "phase " << phase << " mask " << mask;
    }
  }
}

TEST(SlotLayoutChecksum, RejectsATornPayloadAndAnotherIdentity) {
  Prng random(::yonder::testing::test_seed());
  const SlotLayout layout(Validator::kChecksum, 128);
  Place place(0, 128);
  layout.store(place.slot(), kWord, random_bytes(random, layout.capacity()));
  std::vector<std::byte> out(40);
  place.put(HeaderWord::of(BlockId(77), ObjectId(6), 1000, SlotState::kLive));
  EXPECT_FALSE(layout.decode(place.raw(128), 0, out));
  place.put(kWord.with_state(SlotState::kMoving));
  EXPECT_TRUE(layout.decode(place.raw(128), 0, out)) << "a move changes nothing that is summed";
  place.slot()[100] ^= std::byte{1};
  EXPECT_FALSE(layout.decode(place.raw(128), 0, out));
}

TEST(SlotLayoutLines, NeverAcceptsMemoryThatWasGivenBack) {
  for (std::uint32_t version = 0; version < 1024; ++version) {
    EXPECT_NE(SlotLayout::line_byte(version), std::byte{0});
  }
}

}  // namespace
}  // namespace yonder::node
