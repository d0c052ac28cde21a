#pragma once
// What a client process was promised, in a file that outlives it: restart_test.cc.
//
// Concurrency: one writer; others read what was true a moment ago.

#include <array>
#include <atomic>
#include <cstdint>

#include "yonder/node/object_ptr.h"

namespace yonder::e2e {

struct LedgerCell {
  std::atomic<std::uint64_t> low;
  std::atomic<std::uint64_t> high;
  std::atomic<std::uint64_t> acknowledged;  // The number that was written last.
  std::atomic<std::uint64_t> attempted;     // … and one of which that is not known.

  node::ObjectPtr object() const { return node::ObjectPtr::from_words(low, high); }
};

struct Ledger {
  static constexpr std::size_t kCells = 64;
  std::array<LedgerCell, kCells> cells;
  std::atomic<std::uint64_t> operations;  // That succeeded.
  std::atomic<std::uint64_t> losses;      // Operations that failed because the node was away.
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace yonder::e2e
