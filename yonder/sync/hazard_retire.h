#pragma once
// The reclaimer's side of hazard slots: which values of a batch are in use, and a
// list of things to free when they no longer are.
//
// Concurrency: one thread per object (or under the caller's lock).
// Lifetime: the domain outlives both; a RetireList frees what is left in its
// destructor, so no reader may still use it then.

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "yonder/sync/hazard.h"

namespace yonder::sync {

// All values in use at one moment, made for asking about many.
template <typename Atomics = StdAtomics>
class HazardSnapshot {
 public:
  // Allocates once, for every slot of the domain.
  explicit HazardSnapshot(const HazardDomain<Atomics>& domain) : values_(domain.max_values()) {}

  // One heavy barrier, one scan. Whatever was made unreachable before and is not
  // contained afterwards is used by nobody and never will be.
  void refresh(HazardDomain<Atomics>& domain) {
    domain.barrier();
    in_use_ = domain.scan(values_);
    std::ranges::sort(in_use_);
  }

  bool contains(HazardValue value) const { return std::ranges::binary_search(in_use_, value); }
  std::size_t size() const { return in_use_.size(); }

 private:
  std::vector<HazardValue> values_;
  std::span<HazardValue> in_use_;
};

// Things that were made unreachable and wait to be freed in batches.
template <typename Atomics = StdAtomics>
class RetireList {
 public:
  // Frees the object behind `value`; `context` is the caller's.
  using Free = void (*)(void* context, HazardValue value);

  // A reclaim follows every `batch` retirements. The list holds at most `batch`
  // and the slots of the domain: no more than that can be in use at once.
  RetireList(HazardDomain<Atomics>& domain, std::size_t batch, Free free, void* context)
      : domain_(domain), snapshot_(domain), batch_(batch), free_(free), context_(context) {
    YONDER_CHECK(batch != 0, "a batch has room for one");
    retired_.reserve(capacity());
  }
  RetireList(const RetireList&) = delete;
  RetireList& operator=(const RetireList&) = delete;
  ~RetireList() {
    for (const HazardValue value : retired_) free_(context_, value);
  }

  // Requires that no reader can find `value` any more.
  void retire(HazardValue value) {
    retired_.push_back(value);
    if (retired_.size() == capacity()) reclaim();
  }

  // Frees all that nobody uses; how many. Afterwards at most max_values() of the
  // domain are left, because each of the others is in some slot.
  std::size_t reclaim() {
    snapshot_.refresh(domain_);
    const auto kept =
        std::ranges::partition(retired_, [&](HazardValue value) { return snapshot_.contains(value); });
    for (const HazardValue value : kept) free_(context_, value);
    const std::size_t freed = kept.size();
    retired_.resize(retired_.size() - freed);
    return freed;
  }

  std::size_t size() const { return retired_.size(); }
  std::size_t capacity() const { return batch_ + domain_.max_values(); }

 private:
  HazardDomain<Atomics>& domain_;
  HazardSnapshot<Atomics> snapshot_;
  const std::size_t batch_;
  const Free free_;
  void* const context_;
  std::vector<HazardValue> retired_;
};

}  // namespace yonder::sync
