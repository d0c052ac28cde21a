#pragma once
// The cost of one dereference: chains of objects, followed through far pointers and through plain
// ones, in turn.
//
// Concurrency: one thread; makes a heap of its own. Lifetime: values.

#include <cstdint>
#include <vector>

#include "yonder/base/result.h"

namespace yonder::bench::heap {

struct DereferenceOptions {
  std::uint64_t objects = 1;  // Of 16 bytes.
  std::uint64_t steps = 1;    // Dereferences in a round.
  bool dependent = true;      // The next one depends on what was read.
  int rounds = 1;
  std::uint64_t seed = 1;
};

// Of each round, ns per dereference.
struct DereferenceTimes {
  std::vector<double> far;
  std::vector<double> plain;
};

// kCorrupt: the two did not read the same.
Result<DereferenceTimes> measure_dereferences(const DereferenceOptions& options);

}  // namespace yonder::bench::heap
