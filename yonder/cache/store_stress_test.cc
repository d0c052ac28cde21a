// Threads on one store that is too small for their keys: values are those of their keys,
// whole, and what one thread alone writes it finds again or not at all, never older.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/cache/store.h"
#include "yonder/testing/sanitizer.h"
#include "yonder/testing/seed.h"

namespace yonder::cache {
namespace {

constexpr int kThreads = 4;
constexpr std::uint64_t kKeys = 400;

// The key, a version and as many bytes of filling as the version says.
std::string value_of(const std::string& key, std::uint64_t version) {
  return key + ":" + std::to_string(version) + ":" + std::string(version * 97 % 5000, 'f');
}

class Hammer {
 public:
  Hammer(Store& store, int thread, std::uint64_t seed)
      : store_(store), thread_(thread), prng_(seed), last_(kKeys, 0) {}

  void run(std::uint64_t steps) {
    for (std::uint64_t i = 0; i < steps && !::testing::Test::HasFatalFailure(); ++i) {
      if (prng_.chance(0.3)) {
        write();
      } else {
        read();
      }
    }
  }

 private:
  // Every thread reads all keys; key k is written by thread k % kThreads only.
  void write() {
    const std::uint64_t k = prng_.below(kKeys / kThreads) * kThreads + static_cast<std::uint64_t>(thread_);
    const std::string key = "key" + std::to_string(k);
    StoreReply reply{StoreOutcome::kNotStored};
    store_.store(Key(key), {.value = value_of(key, last_[k] + 1)}, 100, reply);
    if (reply.outcome == StoreOutcome::kStored) ++last_[k];
  }

  void read() {
    const std::uint64_t k = prng_.below(kKeys);
    const std::string name = "key" + std::to_string(k);
    const Key key(name);
    std::string value;
    store_.visit(key, [&](Partition& partition) {
      Item* item = partition.find(key, 100);
      if (item == nullptr) return;
      partition.bump(*item, 100);
      value = item->value();
    });
    if (value.empty()) return;
    const std::size_t colon = value.find(':');
    ASSERT_EQ(value.substr(0, colon), name);
    const std::uint64_t version = std::stoull(value.substr(colon + 1));
    ASSERT_EQ(value, value_of(name, version));
    const bool mine = k % kThreads == static_cast<std::uint64_t>(thread_);
    if (mine) {
      ASSERT_EQ(version, last_[k]) << "an old value came back";
    } else {
      ASSERT_GE(version, last_[k]) << "time went backwards";
      last_[k] = version;
    }
  }

  Store& store_;
  const int thread_;
  Prng prng_;
  std::vector<std::uint64_t> last_;
};

TEST(StoreStress, ValuesAreWholeAndNeverOld) {
  const auto store = Store::create({.partitions = 8, .memory_bytes = 512 << 10}).value();
  std::atomic<bool> done{false};
  std::thread upkeep([&] {
    while (!done.load(std::memory_order_relaxed)) store->crawl(100);
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      Hammer(*store, i, testing::test_seed() + static_cast<std::uint64_t>(i)).run(testing::scaled(100000u));
    });
  }
  for (std::thread& thread : threads) thread.join();
  done.store(true, std::memory_order_relaxed);
  upkeep.join();
  for (std::size_t i = 0; i < store->partitions(); ++i) {
    store->visit_partition(i, [](Partition& partition) { partition.check_invariants(); });
  }
}

}  // namespace
}  // namespace yonder::cache
