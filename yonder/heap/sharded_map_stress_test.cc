// far::sharded_map under threads that read and change it, with little local memory and a heap
// that is shaken all the time.
#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <unordered_map>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/heap/sharded_map.h"
#include "yonder/heap/test_support.h"
#include "yonder/testing/sanitizer.h"
#include "yonder/testing/seed.h"

namespace yonder::heap {
namespace {

// Its numbers always add up to zero: a torn value shows.
struct Account {
  std::array<std::int64_t, 8> parts{};
  std::uint64_t changes = 0;
  void move(std::size_t from, std::size_t to, std::int64_t amount) {
    parts[from] -= amount;
    parts[to] += amount;
    ++changes;
  }
  bool adds_up() const {
    std::int64_t sum = 0;
    for (const std::int64_t part : parts) sum += part;
    return sum == 0;
  }
};

class ShardedMapStress : public ::testing::TestWithParam<Mode> {};

TEST_P(ShardedMapStress, LosesNoChange) {
  const auto heap = make_small_heap(GetParam());
  const Shaker shaker(*heap);
  sharded_map<std::uint64_t, Account> accounts;
  constexpr unsigned kThreads = 3;
  // 80 bytes of entry and 19 of index each.
  constexpr std::uint64_t kAccounts = testing::scaled(kMuchDataBytes, std::size_t{4}) / 99;
  const int steps = testing::scaled(30'000);
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        Prng random(testing::test_seed() + t);
        for (int step = 0; step < steps; ++step) {
          // A small part is hot, so that threads meet.
          const std::uint64_t key = random.below(2) == 0 ? random.below(20) : random.below(kAccounts);
          accounts.write_or_insert(key, [&](Account& account) {
            ASSERT_TRUE(account.adds_up());
            account.move(random.below(8), random.below(8), static_cast<std::int64_t>(random.below(100)));
          });
          accounts.read(random.below(kAccounts),
                        [](const Account& account) { ASSERT_TRUE(account.adds_up()); });
        }
      });
    }
  }
  std::uint64_t changes = 0;
  std::size_t seen = 0;
  accounts.for_each([&](std::uint64_t, const Account& account) {
    changes += account.changes;
    ++seen;
  });
  EXPECT_EQ(changes, kThreads * static_cast<std::uint64_t>(steps));
  EXPECT_EQ(seen, accounts.size());
}

// Each thread owns the keys that leave its number as rest, and has a twin of them.
TEST_P(ShardedMapStress, BehavesAsOneMapForEachThread) {
  const auto heap = make_small_heap(GetParam());
  const Shaker shaker(*heap);
  sharded_map<std::uint64_t, Account> accounts;
  const int steps = testing::scaled(20'000);
  std::vector<std::jthread> threads;
  for (unsigned t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      Prng random(testing::test_seed() + t);
      std::unordered_map<std::uint64_t, std::uint64_t> twin;
      for (int step = 0; step < steps; ++step) {
        const std::uint64_t key = random.below(8000) * 3 + t;
        switch (random.below(4)) {
          case 0:
            ASSERT_EQ(accounts.erase(key), twin.erase(key) == 1);
            break;
          case 1: {
            const Result<bool> added = accounts.try_insert(key, {.changes = key});
            ASSERT_TRUE(added);
            ASSERT_EQ(*added, twin.emplace(key, key).second);
            break;
          }
          case 2:
            ASSERT_EQ(accounts.set(key, {.changes = key + 1}), !twin.contains(key));
            twin[key] = key + 1;
            break;
          default: {
            const auto account = accounts.get(key);
            ASSERT_EQ(account.has_value(), twin.contains(key));
            if (account) {
              ASSERT_EQ(account->changes, twin[key]);
            }
          }
        }
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, ShardedMapStress, all_modes(), name_of_mode);

}  // namespace
}  // namespace yonder::heap
