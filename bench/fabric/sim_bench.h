#pragma once
// How fast the simulator itself is: simulated operations per second of CPU.
//
// Hundreds of closed-loop coroutine clients on a few hosts read, write and add at
// random places of a few targets, all driven by one Scheduler on one thread, as the
// experiments on simulated hardware do.
//
// Concurrency: one thread. Lifetime: values.

#include <cstdint>

#include "yonder/base/result.h"

namespace yonder::bench {

struct SimSpeedOptions {
  std::uint64_t seed = 1;
  std::uint32_t clients = 300;
  std::uint32_t client_hosts = 8;
  std::uint32_t targets = 2;
  std::uint32_t bytes = 64;              // of each read and write
  std::uint64_t operations = 2'000'000;  // measured, after a tenth of them to warm up
};

struct SimSpeed {
  std::uint64_t operations = 0;
  double operations_per_cpu_second = 0;
  double events_per_operation = 0;
  double allocations_per_operation = 0;  // Meaningful if HeapCounter::available().
  double virtual_seconds = 0;            // simulated time
  std::uint64_t trace_hash = 0;          // equal for equal options
};

// Errors: those of the fabric, which would be a defect.
Result<SimSpeed> measure_sim_speed(const SimSpeedOptions& options);

}  // namespace yonder::bench
