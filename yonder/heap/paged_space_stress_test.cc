// Threads that write and verify seeded patterns in a space of which a twentieth is local,
// with an evictor that never rests.
#include <gtest/gtest.h>
#include <sys/random.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/heap/paged_space.h"
#include "yonder/testing/effort.h"
#include "yonder/testing/sanitizer.h"
#include "yonder/testing/seed.h"

// A fault is a synchronous signal: what its handler does is as safe as a call would be.
extern "C" const char* __tsan_default_options() { return "report_signal_unsafe=0"; }  // NOLINT

namespace yonder::heap {
namespace {

constexpr std::size_t kPages = 4096;
constexpr std::size_t kBudgetPages = kPages / 20;
constexpr std::size_t kWords = kPageBytes / sizeof(std::uint64_t);

std::unique_ptr<PagedSpace> make_space() {
  auto store = SlotStore::open({.bytes = Bytes(kPages * kPageBytes)}).value();
  return PagedSpace::create({.bytes = Bytes(kPages * kPageBytes), .budget = Bytes(kBudgetPages * kPageBytes)},
                            std::move(store))
      .value();
}

// One thread's pages: what is in them follows from the page and its version.
class Owner {
 public:
  Owner(PagedSpace& space, std::size_t first, std::size_t pages, std::uint64_t seed)
      : space_(space), first_(first), versions_(pages, 0), prng_(seed) {}

  void run(std::uint64_t steps) {
    for (std::uint64_t i = 0; i < steps && !::testing::Test::HasFatalFailure(); ++i) step();
  }

 private:
  std::uint64_t* page(std::size_t index) const {
    return reinterpret_cast<std::uint64_t*>(space_.memory().data() + (first_ + index) * kPageBytes);
  }
  std::uint64_t expected(std::size_t index, std::size_t word) const {
    return versions_[index] == 0 ? 0 : (first_ + index) * 1'000'003 + versions_[index] * 7919 + word;
  }
  void verify(std::size_t index) {
    const std::uint64_t* words = page(index);
    for (std::size_t word = prng_.below(64); word < kWords; word += 61) {
      ASSERT_EQ(words[word], expected(index, word)) << "page " << first_ + index << " word " << word;
    }
  }
  void rewrite(std::size_t index) {
    ++versions_[index];
    std::uint64_t* words = page(index);
    for (std::size_t word = 0; word < kWords; ++word) words[word] = expected(index, word);
  }
  void scan() {
    const std::size_t from = prng_.below(versions_.size());
    for (std::size_t i = from; i < std::min(from + 40, versions_.size()); ++i) verify(i);
  }
  void discard() {
    const std::size_t from = prng_.below(versions_.size());
    const std::size_t count = 1 + prng_.below(std::min<std::size_t>(8, versions_.size() - from));
    space_.discard(space_.memory().subspan((first_ + from) * kPageBytes, count * kPageBytes));
    for (std::size_t i = from; i < from + count; ++i) versions_[i] = 0;
  }
  void pin_and_copy() {
    const std::size_t index = prng_.below(versions_.size());
    const auto bytes = space_.memory().subspan((first_ + index) * kPageBytes, kPageBytes);
    const auto pin = space_.pin(bytes, PagedSpace::Access::kWrite);
    ASSERT_TRUE(pin) << pin.error().to_string();
    verify(index);
    rewrite(index);
    std::this_thread::yield();
    verify(index);
  }
  void step() {
    const std::size_t index = prng_.below(versions_.size());
    switch (prng_.below(8)) {
      case 0:
        return scan();
      case 1:
        return prng_.below(8) == 0 ? discard() : verify(index);
      case 2:
        return pin_and_copy();
      case 3:
      case 4:
        verify(index);
        return rewrite(index);
      case 5:
        return rewrite(index);
      default:
        return verify(index);
    }
  }

  PagedSpace& space_;
  const std::size_t first_;
  std::vector<std::uint64_t> versions_;
  Prng prng_;
};

TEST(PagedSpaceStress, ShowsEveryThreadWhatItHasWritten) {
  const auto space = make_space();
  constexpr std::size_t kThreads = 4;
  std::vector<std::jthread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Owner owner(*space, t * (kPages / kThreads), kPages / kThreads, testing::test_seed() + t);
      owner.run(testing::scaled<std::uint64_t>(8'000) * testing::test_effort());
    });
  }
  threads.clear();
  EXPECT_LE(space->stats().resident_bytes, kBudgetPages * kPageBytes);
  EXPECT_GT(space->stats().left_pages, 0u);
}

// Two threads share every page: each has its own words in it, so that a write that gets
// lost on the way out is seen by the thread that made it.
TEST(PagedSpaceStress, LosesNoWriteOfTwoThreadsInOnePage) {
  const auto space = make_space();
  constexpr std::size_t kThreads = 3;
  const std::uint64_t steps = testing::scaled<std::uint64_t>(40'000) * testing::test_effort();
  std::vector<std::jthread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::vector<std::uint64_t> counts(kPages, 0);
      Prng prng(testing::test_seed() * 31 + t);
      for (std::uint64_t i = 0; i < steps; ++i) {
        // Half of the steps meet in few pages, so that they meet while these leave.
        const std::size_t page = prng.below(2) == 0 ? prng.below(kBudgetPages * 2) : prng.below(kPages);
        auto* word = reinterpret_cast<std::uint64_t*>(space->memory().data() + page * kPageBytes) + 17 * t;
        ASSERT_EQ(*word, counts[page]) << "page " << page << " thread " << t;
        *word = ++counts[page];
      }
    });
  }
}

// A sweep protects a stretch of pages with one call, and pages come in between its victims at any
// time: what is pinned stays writable for the kernel, which cannot fault.
TEST(PagedSpaceStress, LetsTheKernelWriteWhatIsPinned) {
  const auto space = make_space();
  const std::uint64_t steps = testing::scaled<std::uint64_t>(120'000) * testing::test_effort();
  // Few pages, half of them absent: most come in next to some that leave.
  constexpr std::size_t kUsed = 2 * kBudgetPages;
  std::vector<std::jthread> threads;
  for (std::size_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      Prng prng(testing::test_seed() * 37 + t);
      for (std::uint64_t i = 0; i < steps; ++i) {
        const auto bytes = space->memory().subspan(prng.below(kUsed) * kPageBytes + t * 64, 64);
        const auto pin = space->pin(bytes, PagedSpace::Access::kWrite);
        ASSERT_TRUE(pin) << pin.error().to_string();
        ASSERT_EQ(::getrandom(bytes.data(), bytes.size(), 0), 64) << "errno " << errno << " step " << i;
      }
    });
  }
}

TEST(PagedSpaceStress, FollowsABudgetThatNeverRests) {
  const auto space = make_space();
  std::atomic<bool> stop{false};
  std::jthread changer([&] {
    Prng prng(testing::test_seed() + 99);
    while (!stop) {
      ASSERT_TRUE(space->set_budget(Bytes((PagedSpace::kMinBudgetPages + prng.below(600)) * kPageBytes)));
      std::this_thread::yield();
    }
  });
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < 2; ++t) {
      threads.emplace_back([&, t] {
        Owner owner(*space, t * (kPages / 2), kPages / 2, testing::test_seed() + 7 + t);
        owner.run(testing::scaled<std::uint64_t>(6'000) * testing::test_effort());
      });
    }
  }
  stop = true;
}

}  // namespace
}  // namespace yonder::heap
