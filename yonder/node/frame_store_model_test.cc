#include "yonder/node/frame_store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>

#include <algorithm>
#include <map>

#include "yonder/base/prng.h"
#include "yonder/node/size_class.h"
#include "yonder/testing/seed.h"

namespace yonder::node {
namespace {

class FakeClock final : public Clock {
 public:
  Instant now() const override { return now_; }
  void advance(Duration duration) { now_ = now_ + duration; }

 private:
  Instant now_ = Instant::from_ns(1);
};

std::unique_ptr<FrameStore> make(const Clock& clock, std::uint64_t limit = 256 << 20) {
  auto store = FrameStore::create(clock, {.limit = Bytes(limit)});
  EXPECT_TRUE(store) << store.error();
  return std::move(*store);
}

TEST(FrameStore, HandsOutZeroedMemoryThatDoesNotOverlap) {
  FakeClock clock;
  const auto store = make(clock);
  Prng random(::yonder::testing::test_seed());
  std::map<std::uint32_t, std::uint64_t> frames;  // The naive twin: first unit → bytes.
  for (int step = 0; step < 3000; ++step) {
    clock.advance(std::chrono::milliseconds(1));
    if (frames.size() < 20 || random.below(2) == 0) {
      const std::uint64_t bytes = std::uint64_t{kUnitBytes} << random.below(8);
      const auto frame = store->allocate(bytes);
      if (!frame) {
        ASSERT_EQ(frame.error(), ErrorCode::kOutOfMemory);
        continue;
      }
      const auto next = frames.lower_bound(frame->value());
      ASSERT_TRUE(next == frames.end() || frame->value() + bytes / kUnitBytes <= next->first);
      ASSERT_TRUE(next == frames.begin() ||
                  std::prev(next)->first + std::prev(next)->second / kUnitBytes <= frame->value());
      const std::span<std::byte> memory(store->address(*frame), bytes);
      ASSERT_TRUE(std::ranges::all_of(memory.first(64), [](std::byte b) { return b == std::byte{0}; }));
      std::ranges::fill(memory, std::byte{0xab});
      frames[frame->value()] = bytes;
    } else {
      auto victim = std::next(frames.begin(), static_cast<std::ptrdiff_t>(random.below(frames.size())));
      store->release(FrameId(victim->first), victim->second);
      frames.erase(victim);
    }
    if (step % 50 == 0) store->check_invariants();
  }
  std::uint64_t active = 0;
  for (const auto& [first, bytes] : frames) active += bytes;
  EXPECT_EQ(store->active_bytes(), active);
}

TEST(FrameStore, KeepsReleasedFramesInQuarantine) {
  FakeClock clock;
  const auto store = make(clock);
  const FrameId frame = store->allocate(kUnitBytes).value();
  std::fill_n(store->address(frame), kUnitBytes, std::byte{1});
  store->release(frame, kUnitBytes);
  EXPECT_EQ(store->quarantine_bytes(), kUnitBytes);
  EXPECT_EQ(*store->address(frame), std::byte{0}) << "a slow reader sees a free header";
  EXPECT_NE(store->allocate(kUnitBytes).value(), frame);
  clock.advance(std::chrono::seconds(1));
  EXPECT_EQ(store->allocate(kUnitBytes).value(), frame);
}

TEST(FrameStore, StopsAtItsLimitAndGoesOnAfterARelease) {
  FakeClock clock;
  const auto store = make(clock, 8 << 20);
  std::vector<FrameId> frames;
  while (auto frame = store->allocate(1 << 20)) frames.push_back(*frame);
  EXPECT_EQ(frames.size(), 8u);
  store->release(frames.back(), 1 << 20);
  EXPECT_TRUE(store->allocate(1 << 20));
  EXPECT_EQ(store->allocate(1 << 20).error(), ErrorCode::kOutOfMemory);
}

TEST(FrameStore, KeepsThePagesOfReleasedFramesIfTold) {
  for (const bool give_back : {true, false}) {
    FakeClock clock;
    auto store = FrameStore::create(clock, {.give_back = give_back}).value();
    const FrameId frame = store->allocate(1 << 20).value();
    std::memset(store->address(frame), 7, 1 << 20);
    store->release(frame, 1 << 20);
    EXPECT_EQ(*store->address(frame), std::byte{0}) << "a free header either way";
    store->for_each_superblock([&](const Superblock& superblock) {
      struct stat file{};
      ASSERT_EQ(::fstat(superblock.memfd.fd().get(), &file), 0);
      EXPECT_EQ(file.st_blocks * 512 >= 1 << 20, !give_back);
    });
  }
}

TEST(FrameStore, TellsAboutEachSuperblockBeforeItsFramesAreUsed) {
  FakeClock clock;
  std::vector<std::uint32_t> told;
  auto store = FrameStore::create(clock, {.limit = Bytes(std::uint64_t{1} << 30),
                                          .on_superblock = [&](const Superblock& s) -> Result<void> {
                                            told.push_back(s.first.value());
                                            return {};
                                          }})
                   .value();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(store->allocate(64 << 20));
  EXPECT_EQ(told, (std::vector<std::uint32_t>{0, 32768, 65536}));
}

TEST(FrameStore, RefusesNonsense) {
  FakeClock clock;
  EXPECT_FALSE(FrameStore::create(clock, {.limit = Bytes(0)}));
  EXPECT_FALSE(FrameStore::create(clock, {.limit = Bytes(std::uint64_t{1} << 40)}));
  EXPECT_FALSE(FrameStore::create(clock, {.superblock = Bytes(1 << 20)}));
}

}  // namespace
}  // namespace yonder::node
