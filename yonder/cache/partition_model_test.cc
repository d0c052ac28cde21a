// Random operations on a partition and on a naive twin: a map. They agree on every reply,
// except that the partition may throw items out when its memory is small; what it still has
// is what the twin has.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>

#include "yonder/base/prng.h"
#include "yonder/cache/internal/layout.h"
#include "yonder/cache/internal/test_partition.h"
#include "yonder/cache/numbers.h"
#include "yonder/testing/effort.h"
#include "yonder/testing/sanitizer.h"
#include "yonder/testing/seed.h"

namespace yonder::cache {
namespace {

struct Twin {
  struct Entry {
    std::string value;
    std::uint32_t flags;
    Seconds expires;
    std::uint64_t cas;
  };
  std::map<std::string, Entry> entries;

  Entry* find(const std::string& key, Seconds now) {
    const auto found = entries.find(key);
    if (found == entries.end()) return nullptr;
    if (found->second.expires != 0 && found->second.expires <= now) {
      entries.erase(found);
      return nullptr;
    }
    return &found->second;
  }
};

class Model {
 public:
  Model(std::uint64_t seed, std::size_t budget) : prng_(seed), partition_(budget), small_(budget < 1 << 20) {}

  void step() {
    if (prng_.chance(0.01)) now_ += static_cast<Seconds>(prng_.below(3));
    key_ = "k" + std::to_string(prng_.below(300));
    resync();
    switch (prng_.below(10)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return store();
      case 4:
        return erase();
      case 5:
        return add();
      case 6:
        return rarely();
      default:
        return read();
    }
  }
  void check() { partition_->check_invariants(); }
  std::uint64_t evicted() { return partition_->counters().evicted; }

 private:
  // The partition may have thrown the key out. It may not have it without the twin.
  void resync() {
    const Item* item = partition_->find(Key(key_), now_);
    Twin::Entry* entry = twin_.find(key_, now_);
    if (item == nullptr && entry != nullptr && partition_->counters().evicted > 0) twin_.entries.erase(key_);
    ASSERT_EQ(item != nullptr, twin_.find(key_, now_) != nullptr) << key_;
  }

  std::string value() {
    if (prng_.chance(0.3)) return std::to_string(prng_() >> prng_.below(64));
    return std::string(prng_.chance(0.05) ? prng_.below(20000) : prng_.below(300),
                       static_cast<char>('a' + prng_.below(26)));
  }

  void store() {
    const auto mode = static_cast<StoreMode>(prng_.below(6));
    const std::string data = value();
    Twin::Entry* entry = twin_.find(key_, now_);
    StoreRequest request{.mode = mode,
                         .flags = prng_.chance(0.5) ? 0u : 9u,
                         .expires = prng_.chance(0.1) ? now_ + static_cast<Seconds>(prng_.below(5)) : 0,
                         .value = data};
    if (mode == StoreMode::kCas && entry != nullptr && prng_.chance(0.7)) request.cas = entry->cas;
    const StoreReply reply = partition_->store(Key(key_), request, now_);
    const bool extends = mode == StoreMode::kAppend || mode == StoreMode::kPrepend;
    StoreOutcome expected = StoreOutcome::kStored;
    if (mode == StoreMode::kAdd && entry != nullptr) expected = StoreOutcome::kNotStored;
    if ((mode == StoreMode::kReplace || extends) && entry == nullptr) expected = StoreOutcome::kNotStored;
    if (mode == StoreMode::kCas) {
      expected = entry == nullptr            ? StoreOutcome::kNotFound
                 : request.cas == entry->cas ? StoreOutcome::kStored
                                             : StoreOutcome::kExists;
    }
    if (reply.outcome == StoreOutcome::kNoMemory) {
      // Nothing has changed then.
      ASSERT_EQ(expected, StoreOutcome::kStored);
      return;
    }
    ASSERT_EQ(reply.outcome, expected);
    if (expected != StoreOutcome::kStored) return;
    if (extends) {
      entry->value = mode == StoreMode::kAppend ? entry->value + data : data + entry->value;
      entry->cas = reply.cas;
    } else {
      twin_.entries[key_] = {data, request.flags, request.expires, reply.cas};
    }
  }

  void erase() {
    Item* item = partition_->find(Key(key_), now_);
    if (item != nullptr) partition_->erase(Key(key_), *item);
    twin_.entries.erase(key_);
  }

  void add() {
    const std::uint64_t delta = prng_() >> prng_.below(64);
    const bool increment = prng_.chance(0.5);
    Twin::Entry* entry = twin_.find(key_, now_);
    const ArithmeticReply reply = partition_->add(Key(key_), {.increment = increment, .delta = delta}, now_);
    if (entry == nullptr) {
      ASSERT_EQ(reply.outcome, ArithmeticOutcome::kNotFound);
      return;
    }
    const std::optional<std::uint64_t> before = entry->value.empty() ? std::nullopt : parse_u64(entry->value);
    if (!before) {
      ASSERT_EQ(reply.outcome, ArithmeticOutcome::kNotNumeric);
      return;
    }
    if (reply.outcome == ArithmeticOutcome::kNoMemory) return;
    const std::uint64_t after = increment ? *before + delta : *before > delta ? *before - delta : 0;
    ASSERT_EQ(reply.value, after);
    std::string text = std::to_string(after);
    if (text.size() < entry->value.size()) text.resize(entry->value.size(), ' ');
    entry->value = text;
    entry->cas = reply.item->cas;
  }

  void rarely() {
    if (prng_.chance(0.01)) {
      partition_->flush(now_, now_);
      twin_.entries.clear();
    } else if (small_ && prng_.chance(0.1)) {
      partition_->shrink(prng_.below(30000), now_);
    } else {
      partition_->crawl(16, now_);
    }
  }

  void read() {
    Item* item = partition_->find(Key(key_), now_);
    const Twin::Entry* entry = twin_.find(key_, now_);
    ASSERT_EQ(item != nullptr, entry != nullptr);
    if (item == nullptr) return;
    partition_->bump(*item, now_);
    ASSERT_EQ(item->value(), entry->value);
    ASSERT_EQ(item->flags(), entry->flags);
    ASSERT_EQ(item->cas, entry->cas);
    ASSERT_EQ(item->expires, entry->expires);
  }

  Prng prng_;
  TestPartition partition_;
  const bool small_;  // May lose items.
  Twin twin_;
  Seconds now_ = 1000;
  std::string key_;
};

void run(Model& model) {
  const std::uint64_t steps = testing::scaled(200000) * testing::test_effort();
  for (std::uint64_t i = 0; i < steps; ++i) {
    ASSERT_NO_FATAL_FAILURE(model.step()) << "step " << i;
    if (i % 500 == 0) model.check();
  }
  model.check();
}

TEST(PartitionModel, AgreesWithAMapWhereMemoryIsPlenty) {
  Model model(testing::test_seed(), 64 << 20);
  run(model);
  EXPECT_EQ(model.evicted(), 0u);
}

TEST(PartitionModel, AgreesWithAMapOnWhatItStillHas) {
  Model model(testing::test_seed(), 96 << 10);
  run(model);
  EXPECT_GT(model.evicted(), 0u);
}

}  // namespace
}  // namespace yonder::cache
