// Threads that write and read pages while others lend them and change them in the store, with a
// budget of a tenth: no change is lost, on either side, and nobody sees half of one.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/heap/paged_space.h"
#include "yonder/os/steady_clock.h"
#include "yonder/testing/effort.h"
#include "yonder/testing/seed.h"

// A fault is a synchronous signal: what its handler does is as safe as a call would be.
extern "C" const char* __tsan_default_options() { return "report_signal_unsafe=0"; }  // NOLINT

namespace yonder::heap {
namespace {

using Access = PagedSpace::Access;

constexpr std::size_t kPages = 1024;
constexpr std::size_t kWords = kPageBytes / 8;
constexpr std::size_t kClients = 2;
constexpr std::size_t kCallers = 2;

class World {
 public:
  World() {
    auto store = SlotStore::open({.bytes = Bytes(kPages * kPageBytes), .lanes = 4});
    store_ = store->get();
    space_ = PagedSpace::create({.bytes = Bytes(kPages * kPageBytes), .budget = Bytes(100 * kPageBytes)},
                                std::move(*store))
                 .value();
  }

  // Word t of a page is client t's own counter; word kWords - 1 - c that of caller c; nobody
  // else writes them. Adding is not atomic: one lost page loses counts.
  void act_as_client(std::size_t t, int steps) {
    Prng random(::yonder::testing::test_seed() * 31 + t);
    for (int i = 0; i < steps; ++i) {
      const std::size_t page = random.below(kPages);
      std::atomic_ref<std::uint64_t> mine(words(page)[t]);
      mine.store(mine.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      ++client_counts_[t][page];
      // What callers write there comes and does not go again.
      const std::size_t other = random.below(kPages);
      const std::size_t c = random.below(kCallers);
      std::atomic_ref<std::uint64_t> theirs(words(other)[kWords - 1 - c]);
      const std::uint64_t seen = theirs.load(std::memory_order_relaxed);
      if (seen < last_seen_[t][c][other]) torn_.fetch_add(1);
      last_seen_[t][c][other] = seen;
    }
  }

  void act_as_caller(std::size_t c, int steps) {
    Prng random(::yonder::testing::test_seed() * 37 + c);
    for (int i = 0; i < steps; ++i) {
      const std::size_t count = 1 + random.below(40);
      const std::size_t first = random.below(kPages - count);
      const bool writes = random.below(2) == 0;
      const PagedSpace::LendRange range{
          .bytes = space_->memory().subspan(first * kPageBytes, count * kPageBytes),
          .access = writes ? Access::kWrite : Access::kRead};
      const auto lent =
          space_->lend({&range, 1}, Deadline::at(os::SteadyClock::read() + std::chrono::seconds(60)));
      ASSERT_TRUE(lent) << lent.error().to_string();
      writes ? change(c, first, count) : look(first, count, random);
    }
  }

  void verify() {
    for (std::size_t page = 0; page < kPages; ++page) {
      for (std::size_t t = 0; t < kClients; ++t) ASSERT_EQ(words(page)[t], client_counts_[t][page]) << page;
      for (std::size_t c = 0; c < kCallers; ++c)
        ASSERT_EQ(words(page)[kWords - 1 - c], caller_counts_[c][page]) << page;
    }
    EXPECT_EQ(torn_.load(), 0);
  }

 private:
  std::uint64_t* words(std::size_t page) {
    return reinterpret_cast<std::uint64_t*>(space_->memory().data() + page * kPageBytes);
  }
  std::vector<std::uint64_t> fetch(std::size_t first, std::size_t count) {
    std::vector<std::uint64_t> all(count * kWords);
    EXPECT_TRUE(store_->read({.local = reinterpret_cast<std::byte*>(all.data()),
                              .bytes = static_cast<std::uint32_t>(count * kPageBytes),
                              .offset = first * kPageBytes}));
    return all;
  }
  // The function: adds one in every page.
  void change(std::size_t c, std::size_t first, std::size_t count) {
    std::vector<std::uint64_t> all = fetch(first, count);
    for (std::size_t i = 0; i < count; ++i) {
      ++all[i * kWords + kWords - 1 - c];
      ++caller_counts_[c][first + i];
    }
    const Transfer transfer{.local = reinterpret_cast<std::byte*>(all.data()),
                            .bytes = static_cast<std::uint32_t>(count * kPageBytes),
                            .offset = first * kPageBytes};
    EXPECT_TRUE(store_->write_many({&transfer, 1}));
  }
  // A function that only reads sees the same as long as it likes.
  void look(std::size_t first, std::size_t count, Prng& random) {
    const auto before = fetch(first, count);
    if (random.below(4) == 0) std::this_thread::yield();
    if (fetch(first, count) != before) torn_.fetch_add(1);
  }

  SlotStore* store_;
  std::unique_ptr<PagedSpace> space_;
  std::array<std::array<std::uint64_t, kPages>, kClients> client_counts_{};
  std::array<std::array<std::uint64_t, kPages>, kCallers> caller_counts_{};
  std::array<std::array<std::array<std::uint64_t, kPages>, kCallers>, kClients> last_seen_{};
  std::atomic<int> torn_{0};
};

TEST(PagedLendStress, NoChangeIsLostOnEitherSide) {
  const auto world = std::make_unique<World>();
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < kClients; ++t)
      threads.emplace_back([&, t] { world->act_as_client(t, 20'000); });
    for (std::size_t c = 0; c < kCallers; ++c) threads.emplace_back([&, c] { world->act_as_caller(c, 400); });
  }
  world->verify();
}

}  // namespace
}  // namespace yonder::heap
