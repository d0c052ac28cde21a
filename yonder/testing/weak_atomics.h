#pragma once
// Atomics whose stores forget that they should release: what a model test runs its
// code with a second time. A test that does not find the error then proves nothing.
//
// Concurrency and lifetime: as SimAtomics (deterministic_scheduler.h).

#include <atomic>

#include "yonder/testing/deterministic_scheduler.h"

namespace yonder::testing {

template <typename T>
class WeakAtomic : public SimAtomic<T> {
 public:
  using SimAtomic<T>::SimAtomic;
  void store(T value, std::memory_order) { SimAtomic<T>::store(value, std::memory_order_relaxed); }
};

struct WeakAtomics : SimAtomics {
  template <typename T>
  using Atomic = WeakAtomic<T>;
};

}  // namespace yonder::testing
