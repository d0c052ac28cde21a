#include "yonder/heap/paged_space.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "yonder/os/process.h"
#include "yonder/os/steady_clock.h"

// A fault is a synchronous signal: what its handler does is as safe as a call would be.
extern "C" const char* __tsan_default_options() { return "report_signal_unsafe=0"; }  // NOLINT

namespace yonder::heap {
namespace {

constexpr std::size_t kPages = 2048;
constexpr std::size_t kBudgetPages = 128;

std::unique_ptr<PagedSpace> make_space(PagedSpaceOptions options = {}) {
  options.bytes = Bytes(kPages * kPageBytes);
  if (options.budget.count() == 0) options.budget = Bytes(kBudgetPages * kPageBytes);
  auto store = SlotStore::open({.bytes = options.bytes, .lanes = 2});
  EXPECT_TRUE(store) << store.error().to_string();
  auto space = PagedSpace::create(options, std::move(*store));
  EXPECT_TRUE(space) << space.error().to_string();
  return std::move(*space);
}

std::uint64_t* words_of(const PagedSpace& space, std::size_t page) {
  return reinterpret_cast<std::uint64_t*>(space.memory().data() + page * kPageBytes);
}

void fill(const PagedSpace& space) {
  for (std::size_t page = 0; page < kPages; ++page) words_of(space, page)[page % 512] = page + 1;
}

bool eventually(const std::function<bool()>& condition) {
  const Deadline deadline = Deadline::at(os::SteadyClock::read() + std::chrono::seconds(20));
  while (!condition()) {
    if (deadline.passed(os::SteadyClock::read())) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST(PagedSpace, IsZeroAtFirst) {
  const auto space = make_space();
  for (std::size_t page = 0; page < kPages; page += 7) EXPECT_EQ(words_of(*space, page)[3], 0u);
}

TEST(PagedSpace, KeepsWhatIsLargerThanItsBudget) {
  const auto space = make_space();
  fill(*space);
  for (int round = 0; round < 3; ++round) {
    for (std::size_t page = 0; page < kPages; ++page) {
      ASSERT_EQ(words_of(*space, page)[page % 512], page + 1);
      ASSERT_EQ(words_of(*space, page)[(page + 1) % 512], 0u);
    }
  }
  const PagedSpaceStats stats = space->stats();
  EXPECT_LE(stats.resident_bytes, kBudgetPages * kPageBytes);
  EXPECT_GE(stats.left_pages, 3 * (kPages - kBudgetPages));
}

TEST(PagedSpace, DropsCleanPagesWithoutWritingThem) {
  const auto space = make_space();
  fill(*space);
  // The first visit writes what is dirty; what follows only reads.
  std::uint64_t sum = 0;
  for (std::size_t page = 0; page < kPages; ++page) sum += words_of(*space, page)[page % 512];
  const std::uint64_t written = space->stats().written_pages;
  const std::uint64_t left = space->stats().left_pages;
  for (std::size_t page = 0; page < kPages; ++page) sum -= words_of(*space, page)[page % 512];
  EXPECT_EQ(sum, 0u);
  EXPECT_GE(space->stats().left_pages - left, kPages - 2 * kBudgetPages);
  // The last pages of the first visit were still dirty from filling.
  EXPECT_LE(space->stats().written_pages - written, 2 * kBudgetPages);
}

TEST(PagedSpace, FindsOutThatAPageWasWrittenAfterItWasRead) {
  const auto space = make_space();
  fill(*space);
  for (std::uint64_t round = 0; round < 6; ++round) {
    for (std::size_t page = 0; page < kPages; ++page) {
      std::uint64_t* words = words_of(*space, page);
      ASSERT_EQ(words[page % 512], page + 1 + round);  // A read brings it…
      words[page % 512] += 1;                          // …and a write finds it protected.
    }
  }
  EXPECT_GT(space->stats().write_faults, 0u);
}

TEST(PagedSpace, BringsMorePagesAtOnceToWhoReadsThemInOrder) {
  const auto space = make_space();
  fill(*space);
  const PagedSpaceStats before = space->stats();
  for (std::size_t page = 0; page < kPages; ++page) ASSERT_EQ(words_of(*space, page)[page % 512], page + 1);
  const PagedSpaceStats after = space->stats();
  EXPECT_LT(after.faults - before.faults, kPages / 4);
  EXPECT_GT(after.ahead_pages, before.ahead_pages);
}

TEST(PagedSpace, BringsOnlyWhatIsAskedForToWhoReadsAtRandom) {
  const auto space = make_space();
  fill(*space);
  const PagedSpaceStats before = space->stats();
  for (std::size_t i = 0; i < kPages; ++i) {
    const std::size_t page = i * 797 % kPages;  // 797 is odd: a permutation without neighbours.
    ASSERT_EQ(words_of(*space, page)[page % 512], page + 1);
  }
  EXPECT_EQ(space->stats().ahead_pages, before.ahead_pages);
}

TEST(PagedSpace, KeepsPagesThatAreUsedAllTheTime) {
  constexpr std::size_t kHot = 32;
  constexpr std::size_t kCold = kPages - kHot;
  constexpr std::size_t kSteps = 20 * kCold;
  const auto space = make_space({.budget = Bytes(512 * kPageBytes), .max_ahead_pages = 1});
  fill(*space);
  const std::uint64_t before = space->stats().faults;
  // Each cold page is used again when all others were: it is missed every time. So what is more
  // than the steps are misses of the hot ones, of which each step uses one.
  for (std::size_t step = 0; step < kSteps; ++step) {
    const std::size_t cold = kHot + step * 797 % kCold;
    const std::size_t hot = step * 7 % kHot;
    ASSERT_EQ(words_of(*space, cold)[cold % 512], cold + 1);
    ASSERT_EQ(words_of(*space, hot)[hot % 512], hot + 1);
  }
  // A clock that knows nothing of use would miss each hot page once for every 512 steps or less.
  const std::uint64_t blind = kHot * kSteps / 512;
  EXPECT_LT(space->stats().faults - before - kSteps, blind / 4);
}

TEST(PagedSpace, ObeysABudgetThatChanges) {
  const auto space = make_space({.budget = Bytes(1024 * kPageBytes)});
  fill(*space);
  ASSERT_TRUE(space->set_budget(Bytes(100 * kPageBytes)));
  EXPECT_TRUE(eventually([&] { return space->stats().resident_bytes <= 100 * kPageBytes; }));
  EXPECT_FALSE(space->set_budget(Bytes(kPageBytes)));
  ASSERT_TRUE(space->set_budget(Bytes(kPages * kPageBytes)));
  for (std::size_t page = 0; page < kPages; ++page) ASSERT_EQ(words_of(*space, page)[page % 512], page + 1);
  EXPECT_GT(space->stats().resident_bytes, 1024 * kPageBytes);
}

TEST(PagedSpace, CountsTheRestOfTheProcessAgainstTheBudget) {
  std::atomic<std::uint64_t> other{0};
  const auto space =
      make_space({.budget = Bytes(1024 * kPageBytes), .other_memory = [&] { return Bytes(other.load()); }});
  fill(*space);
  EXPECT_GT(space->stats().resident_bytes, 512 * kPageBytes);
  other = 600 * kPageBytes;
  EXPECT_TRUE(eventually([&] { return space->stats().resident_bytes <= 424 * kPageBytes; }));
}

TEST(PagedSpace, ForgetsWhatIsDiscarded) {
  const auto space = make_space();
  fill(*space);
  // From the middle of page 10 to the middle of page 2000: the halves stay.
  space->discard(space->memory().subspan(10 * kPageBytes + 100, 1990 * kPageBytes));
  EXPECT_EQ(words_of(*space, 10)[10], 11u);
  for (std::size_t page = 11; page < 2000; ++page) ASSERT_EQ(words_of(*space, page)[page % 512], 0u) << page;
  EXPECT_EQ(words_of(*space, 2000)[2000 % 512], 2001u);
}

TEST(PagedSpace, PopulatesWithoutFaults) {
  const auto space = make_space();
  space->populate(space->memory().subspan(100 * kPageBytes, 64 * kPageBytes));
  const std::uint64_t faults = space->stats().faults;
  for (std::size_t page = 100; page < 164; ++page) words_of(*space, page)[0] = 1;
  EXPECT_EQ(space->stats().faults, faults);
  EXPECT_EQ(space->stats().write_faults, 0u);
}

TEST(PagedSpace, LetsSystemCallsUseWhatIsPinned) {
  const auto space = make_space();
  fill(*space);
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  const std::span<std::byte> far = space->memory().subspan(5 * kPageBytes, 4 * kPageBytes);
  // Page 5 left long ago: without a pin the kernel refuses it.
  ASSERT_EQ(::write(ends[0], far.data(), 8), -1);
  EXPECT_EQ(errno, EFAULT);
  {
    const auto pin = space->pin(far, PagedSpace::Access::kRead);
    ASSERT_TRUE(pin) << pin.error().to_string();
    ASSERT_EQ(::write(ends[0], far.data(), far.size()), static_cast<ssize_t>(far.size()));
  }
  const std::span<std::byte> into = space->memory().subspan(700 * kPageBytes, 4 * kPageBytes);
  {
    const auto pin = space->pin(into, PagedSpace::Access::kWrite);
    ASSERT_TRUE(pin) << pin.error().to_string();
    // The rest of the budget goes round meanwhile.
    for (std::size_t page = 1000; page < kPages; ++page)
      ASSERT_EQ(words_of(*space, page)[page % 512], page + 1);
    std::size_t got = 0;
    while (got < into.size()) {
      const ssize_t part = ::read(ends[1], into.data() + got, into.size() - got);
      ASSERT_GT(part, 0) << std::strerror(errno);
      got += static_cast<std::size_t>(part);
    }
  }
  fill(*space);  // Writes word page % 512 of each page; the others came by the calls.
  EXPECT_EQ(words_of(*space, 700)[5], 6u);
  EXPECT_EQ(words_of(*space, 703)[8], 9u);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(PagedSpace, RefusesAPinThatLeavesNoRoom) {
  const auto space = make_space();
  const auto pin = space->pin(space->memory().first(kBudgetPages * kPageBytes), PagedSpace::Access::kRead);
  ASSERT_FALSE(pin);
  EXPECT_EQ(pin.error(), ErrorCode::kResourceExhausted);
  EXPECT_FALSE(space->pin(std::as_bytes(std::span("elsewhere")), PagedSpace::Access::kRead));
}

TEST(PagedSpace, RefusesSizesThatCannotWork) {
  const auto store = [] { return SlotStore::open({.bytes = Bytes(1 << 20)}).value(); };
  EXPECT_FALSE(PagedSpace::create({.bytes = Bytes(0), .budget = Bytes(1 << 20)}, store()));
  EXPECT_FALSE(PagedSpace::create({.bytes = Bytes(5000), .budget = Bytes(1 << 20)}, store()));
  EXPECT_FALSE(PagedSpace::create({.bytes = Bytes(2 << 20), .budget = Bytes(1 << 20)}, store()));
  EXPECT_FALSE(PagedSpace::create({.bytes = Bytes(1 << 20), .budget = Bytes(4096)}, store()));
  EXPECT_FALSE(PagedSpace::create({.bytes = Bytes(1 << 20), .budget = Bytes(1 << 20)}, nullptr));
}

// Only what may be called after a fork: no assertion, no allocation.
int check_in_child(const PagedSpace& space, std::uint64_t added) {
  for (std::size_t page = 0; page < kPages; ++page) {
    if (words_of(space, page)[page % 512] != page + 1 + added) return 1;
  }
  return 0;
}

TEST(PagedSpace, GivesAChildTheMemoryAsItWasAtTheFork) {
  auto store = SlotStore::open({.bytes = Bytes(PagedSpace::store_bytes(kPages * kPageBytes))}).value();
  const auto space =
      PagedSpace::create({.bytes = Bytes(kPages * kPageBytes), .budget = Bytes(kBudgetPages * kPageBytes)},
                         std::move(store))
          .value();
  fill(*space);
  for (std::uint64_t round = 0; round < 3; ++round) {
    std::array<int, 2> go{};
    ASSERT_EQ(::pipe2(go.data(), O_CLOEXEC), 0);
    space->prepare_fork();
    auto child = os::Child::fork([&] {
      space->after_fork_in_child();
      ::close(go[1]);
      char byte = 0;
      // Not before the parent has changed everything.
      (void)!::read(go[0], &byte, 1);
      return check_in_child(*space, round);
    });
    space->after_fork_in_parent();
    ASSERT_TRUE(child);
    for (std::size_t page = 0; page < kPages; ++page) words_of(*space, page)[page % 512] += 1;
    ::close(go[0]);
    ::close(go[1]);
    const auto status = child->wait(Deadline::at(os::SteadyClock::read() + std::chrono::seconds(30)));
    ASSERT_TRUE(status);
    EXPECT_TRUE(status->success());
    EXPECT_EQ(check_in_child(*space, round + 1), 0);
  }
}

TEST(PagedSpace, StandsBesideAnother) {
  const auto one = make_space();
  auto two = make_space();
  fill(*one);
  fill(*two);
  two.reset();
  for (std::size_t page = 0; page < kPages; ++page) ASSERT_EQ(words_of(*one, page)[page % 512], page + 1);
}

}  // namespace
}  // namespace yonder::heap
