#pragma once
// A partition with memory of its own, for tests.
//
// Concurrency and lifetime: as Partition.

#include <utility>

#include "yonder/cache/partition.h"
#include "yonder/os/mapping.h"

namespace yonder::cache {

class TestPartition {
 public:
  explicit TestPartition(std::size_t budget_bytes = std::size_t{64} << 20, const PartitionPolicy& policy = {},
                         std::size_t range_bytes = std::size_t{128} << 20)
      : memory_(os::Mapping::anonymous({.bytes = range_bytes}).value()),
        budget_(budget_bytes),
        partition_(Partition::format(memory_.bytes(), 7, budget_, policy).value()) {}

  Partition& operator*() { return partition_; }
  Partition* operator->() { return &partition_; }
  MemoryBudget& budget() { return budget_; }
  std::span<std::byte> range() { return memory_.bytes(); }

  StoreOutcome set(std::string_view key, std::string_view value, Seconds now = 100, Seconds expires = 0) {
    return partition_.store(Key(key), {.expires = expires, .value = value}, now).outcome;
  }
  // The value, or "(none)".
  std::string get(std::string_view key, Seconds now = 100) {
    const Item* item = partition_.find(Key(key), now);
    return item == nullptr ? "(none)" : std::string(item->value());
  }
  // As a client reads.
  bool fetch(std::string_view key, Seconds now = 100) {
    Item* item = partition_.find(Key(key), now);
    if (item != nullptr) partition_.bump(*item, now);
    return item != nullptr;
  }

 private:
  os::Mapping memory_;
  MemoryBudget budget_;
  Partition partition_;
};

}  // namespace yonder::cache
