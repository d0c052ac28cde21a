#pragma once
// The atomics that the algorithms of this folder are written on.
//
// Every lock-free class here takes a policy like StdAtomics as its last template
// parameter. Programs use the default; tests put in yonder::testing::SimAtomics,
// under which the same source runs with a seeded scheduler and modelled store
// buffers, so that the code that ships is the code that is checked.
//
// Concurrency and lifetime: stateless.

#include <atomic>
#include <cstddef>

namespace yonder::sync {

// What two cores exchange at a time.
inline constexpr std::size_t kCacheLineBytes = 64;
// How far apart words of different writers should lie: x86 fetches lines in
// pairs, so neighbouring lines still disturb each other.
inline constexpr std::size_t kNoSharingBytes = 128;

struct StdAtomics {
  template <typename T>
  using Atomic = std::atomic<T>;

  // Keeps the compiler from moving memory accesses across; costs nothing. The
  // processor may still let a later load overtake an earlier store.
  static void compiler_fence() { std::atomic_signal_fence(std::memory_order_seq_cst); }

  // The full barrier: no load after it is done before the stores in front of it
  // are visible.
  static void full_fence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
};

}  // namespace yonder::sync
