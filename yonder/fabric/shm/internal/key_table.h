#pragma once
// What an endpoint knows about its peer's regions: key → how to reach it.
//
// An open-addressed table in one array, one cache line per region, so that a
// lookup is a multiplication, a load and a comparison, however many regions
// there are (up to the load factor of one half). It grows only when a region is
// first used; the data path never allocates.
//
// Concurrency: the endpoint's thread. Lifetime: owns the mappings of the regions
// in it; one table per connection.

#include <atomic>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "yonder/fabric/types.h"
#include "yonder/os/mapping.h"

namespace yonder::fabric::shm {

struct alignas(64) Attachment {
  enum class Kind : std::uint8_t { kDirect, kServed };

  std::uint64_t key = 0;  // 0: this place is empty (no region has key 0)
  std::byte* base = nullptr;
  std::uint64_t length = 0;
  const std::atomic<std::uint64_t>* word = nullptr;  // the region's word in the peer's state file
  std::uint64_t state = 0;                           // what it must be
  std::uint64_t hazard = 0;                          // hazard_of(slot, state)
  Rights rights = Rights::kNone;
  Kind kind = Kind::kServed;
};
static_assert(sizeof(Attachment) == 64);

class KeyTable {
 public:
  KeyTable() : places_(kInitial) {}

  // Null if unknown. The pointer is good until the next insert or erase.
  const Attachment* find(RegionKey key) const {
    for (std::size_t i = home(key.value);; i = (i + 1) & (places_.size() - 1)) {
      const Attachment& place = places_[i];
      if (place.key == key.value) [[likely]]
        return &place;
      if (place.key == 0) return nullptr;
    }
  }

  // Adds or replaces. `mapping` is kept for as long as the attachment (empty for
  // served memory and for memory of our own process).
  void insert(const Attachment& attachment, os::Mapping mapping);
  void erase(RegionKey key);
  void clear();

  std::size_t size() const { return size_; }
  // Changes whenever a mapping may have gone.
  const std::uint64_t& epoch() const { return epoch_; }

 private:
  static constexpr std::size_t kInitial = 16;

  // Keys are random already; the multiplication only guards against peers that
  // choose theirs badly.
  std::size_t home(std::uint64_t key) const {
    return (key * 0x9e3779b97f4a7c15u) >> 32 & (places_.size() - 1);
  }
  void place(const Attachment& attachment);
  void grow();

  std::vector<Attachment> places_;  // a power of two, at most half full
  std::size_t size_ = 0;
  std::uint64_t epoch_ = 0;
  std::unordered_map<std::uint64_t, os::Mapping> mappings_;
};

}  // namespace yonder::fabric::shm
