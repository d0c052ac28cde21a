// Pages that are lent to the far side: what is in the store meanwhile, and who waits.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "yonder/heap/paged_space.h"
#include "yonder/os/steady_clock.h"

// A fault is a synchronous signal: what its handler does is as safe as a call would be.
extern "C" const char* __tsan_default_options() { return "report_signal_unsafe=0"; }  // NOLINT

namespace yonder::heap {
namespace {

using Access = PagedSpace::Access;
using Page = std::array<std::uint64_t, kPageBytes / 8>;

constexpr std::size_t kPages = 512;
constexpr std::size_t kBudgetPages = 96;

Deadline soon() { return Deadline::at(os::SteadyClock::read() + std::chrono::seconds(20)); }
Deadline at_once() { return Deadline::at(os::SteadyClock::read() + std::chrono::milliseconds(30)); }

class PagedLend : public ::testing::Test {
 protected:
  PagedLend() {
    auto store = SlotStore::open({.bytes = Bytes(kPages * kPageBytes), .lanes = 4});
    store_ = store->get();
    space_ =
        PagedSpace::create({.bytes = Bytes(kPages * kPageBytes), .budget = Bytes(kBudgetPages * kPageBytes)},
                           std::move(*store))
            .value();
  }

  Page& page(std::size_t number) { return reinterpret_cast<Page*>(space_->memory().data())[number]; }
  PagedSpace::LendRange range(std::size_t first, std::size_t count, Access access) {
    return {.bytes = space_->memory().subspan(first * kPageBytes, count * kPageBytes), .access = access};
  }
  PagedSpace::Lend lend(std::size_t first, std::size_t count, Access access) {
    const PagedSpace::LendRange one = range(first, count, access);
    auto made = space_->lend({&one, 1}, soon());
    EXPECT_TRUE(made) << made.error().to_string();
    return *std::move(made);
  }
  // As a function at the far side sees a page, and changes it.
  Page stored(std::size_t number) {
    Page out;
    EXPECT_TRUE(store_->read(
        {.local = reinterpret_cast<std::byte*>(&out), .bytes = kPageBytes, .offset = number * kPageBytes}));
    return out;
  }
  void store(std::size_t number, std::uint64_t value) {
    Page all;
    all.fill(value);
    const Transfer transfer{
        .local = reinterpret_cast<std::byte*>(&all), .bytes = kPageBytes, .offset = number * kPageBytes};
    EXPECT_TRUE(store_->write_many({&transfer, 1}));
  }

  SlotStore* store_;
  std::unique_ptr<PagedSpace> space_;
};

TEST_F(PagedLend, TheStoreHasWhatTheClientWrote) {
  for (const Access access : {Access::kRead, Access::kWrite}) {
    const std::size_t first = access == Access::kRead ? 0 : 32;
    for (std::size_t i = first; i < first + 8; ++i) page(i)[3] = 100 + i;
    const auto lent = lend(first, 8, access);
    for (std::size_t i = first; i < first + 8; ++i) EXPECT_EQ(stored(i)[3], 100 + i);
  }
}

TEST_F(PagedLend, TheClientSeesWhatWasWrittenThere) {
  for (std::size_t i = 0; i < 8; ++i) page(i)[0] = 1;
  {
    const auto lent = lend(0, 16, Access::kWrite);
    for (std::size_t i = 0; i < 16; ++i) store(i, 500 + i);
  }
  for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(page(i)[511], 500 + i);
}

TEST_F(PagedLend, AFreshPageIsZeroThereWhateverItsSlotHad) {
  for (std::size_t i = 0; i < kPages; ++i) page(i)[1] = i + 1;
  for (std::size_t i = 0; i < kPages; ++i) page(i)[2] = 1;  // All have left by now, once at least.
  space_->discard(space_->memory().first(64 * kPageBytes));
  for (const Access access : {Access::kRead, Access::kWrite}) {
    const std::size_t first = access == Access::kRead ? 0 : 32;
    const auto lent = lend(first, 32, access);
    for (std::size_t i = first; i < first + 32; ++i) EXPECT_EQ(stored(i)[1], 0u) << i;
  }
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(page(i)[1], 0u);
}

TEST_F(PagedLend, AReadWaitsForWhatIsBeingWrittenThere) {
  page(5)[0] = 1;
  std::atomic<bool> reading{false};
  std::atomic<std::uint64_t> seen{0};
  std::jthread reader;
  {
    const auto lent = lend(5, 1, Access::kWrite);
    reader = std::jthread([&] {
      reading.store(true);
      seen.store(page(5)[0]);
    });
    while (!reading.load()) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(seen.load(), 0u);
    store(5, 77);
  }
  reader.join();
  EXPECT_EQ(seen.load(), 77u);
}

TEST_F(PagedLend, ReadsGoOnAndWritesWaitWhileItIsReadThere) {
  page(5)[0] = 1;
  page(6)[0] = 2;
  std::atomic<bool> written{false};
  std::jthread writer;
  {
    const auto lent = lend(4, 3, Access::kRead);
    EXPECT_EQ(page(5)[0], 1u);
    EXPECT_EQ(page(4)[0], 0u);
    writer = std::jthread([&] {
      page(6)[0] = 3;
      written.store(true);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(written.load());
    EXPECT_EQ(stored(6)[0], 2u);
  }
  writer.join();
  EXPECT_EQ(page(6)[0], 3u);
}

TEST_F(PagedLend, ReadingIsSharedAndWritingIsNot) {
  const auto first = lend(0, 8, Access::kRead);
  const auto second = lend(4, 8, Access::kRead);
  const PagedSpace::LendRange overlapping = range(7, 2, Access::kWrite);
  EXPECT_EQ(space_->lend({&overlapping, 1}, at_once()).error(), ErrorCode::kDeadlineExceeded);
  const auto third = lend(12, 4, Access::kWrite);
  const PagedSpace::LendRange reading = range(15, 1, Access::kRead);
  EXPECT_EQ(space_->lend({&reading, 1}, at_once()).error(), ErrorCode::kDeadlineExceeded);
}

TEST_F(PagedLend, RangesOfOneLendMayOverlap) {
  page(2)[0] = 9;
  const std::array ranges = {range(0, 4, Access::kRead), range(2, 1, Access::kWrite),
                             range(3, 2, Access::kRead)};
  {
    const auto lent = space_->lend(ranges, soon());
    ASSERT_TRUE(lent);
    store(2, 10);
  }
  EXPECT_EQ(page(2)[0], 10u);
}

TEST_F(PagedLend, PinnedPagesAreWaitedFor) {
  page(9)[0] = 1;
  const PagedSpace::LendRange one = range(8, 4, Access::kWrite);
  {
    const auto pin = space_->pin(space_->memory().subspan(9 * kPageBytes, 10), Access::kWrite);
    ASSERT_TRUE(pin);
    EXPECT_EQ(space_->lend({&one, 1}, at_once()).error(), ErrorCode::kDeadlineExceeded);
    page(9)[0] = 2;  // A lend that failed has left nothing behind.
    page(8)[0] = 3;
  }
  const auto lent = lend(8, 4, Access::kWrite);
  EXPECT_EQ(stored(9)[0], 2u);
  EXPECT_EQ(stored(8)[0], 3u);
}

TEST_F(PagedLend, RefusesWhatIsNotItsOwnAndTooManyRanges) {
  std::array<std::byte, 16> elsewhere{};
  const PagedSpace::LendRange foreign{.bytes = elsewhere};
  EXPECT_EQ(space_->lend({&foreign, 1}, soon()).error(), ErrorCode::kOutOfBounds);
  std::vector<PagedSpace::LendRange> many;
  for (std::size_t i = 0; i < kPages; i += 2) many.push_back(range(i, 1, Access::kRead));
  EXPECT_TRUE(space_->lend(std::span(many).first(200), soon()));
  many.push_back(range(1, 0, Access::kRead));  // Of no bytes: nothing.
  EXPECT_TRUE(space_->lend(many, soon()));
  const auto lent = lend(1, 1, Access::kRead);
  EXPECT_EQ(space_->lend(many, soon()).error(), ErrorCode::kResourceExhausted);
  page(0)[0] = 1;  // Nothing of it is left.
}

}  // namespace
}  // namespace yonder::heap
