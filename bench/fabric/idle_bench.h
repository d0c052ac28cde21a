#pragma once
// What the fabric costs when nothing happens, and whether a steady state
// allocates: counted, not timed.
//
// Concurrency: one thread. Lifetime: values.

#include <string>

#include "yonder/base/result.h"

namespace yonder::bench {

struct IdleUse {
  double target_cpu_percent = 0;  // of one core, while connected and unused
  double client_cpu_percent = 0;
};

// A target process and a client connected over `addresses`, both left alone; the
// client's thread waits in its queue.
Result<IdleUse> measure_idle(const std::string& program, double seconds);

// Heap allocations of this process per one-sided operation over shm and tcp
// against a target process, after a warm-up.
Result<double> measure_heap_allocations(const std::string& program, int operations);

}  // namespace yonder::bench
