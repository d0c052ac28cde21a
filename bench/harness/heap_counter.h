#pragma once
// Counts heap allocations of the whole process, to prove that a steady state
// makes none.
//
// The program that links this replaces malloc and its relatives with thin
// counting wrappers around glibc's. Under a sanitizer, which has a malloc of its
// own, nothing is replaced and available() is false.
//
// Concurrency: any thread; the count is exact once the counted threads rest.

#include <cstdint>

namespace yonder::bench {

struct HeapCounter {
  static bool available();
  // Allocations (malloc, calloc, realloc, aligned forms) since the start.
  static std::uint64_t allocations();
};

}  // namespace yonder::bench
