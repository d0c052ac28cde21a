#pragma once
// `yonder bench objects`: what the object API costs against the raw limits.
//
// Concurrency: one benchmark at a time.

#include <chrono>
#include <cstdint>
#include <string>

#include "bench/harness/benchmark.h"
#include "bench/harness/report.h"
#include "yonder/base/result.h"
#include "yonder/base/time.h"

namespace yonder::bench {

Result<void> run_objects_bench(const Options& options, Report& report);

struct DirectReadOptions {
  std::string provider = "shm";
  Duration spin = std::chrono::microseconds(50);  // before a waiting reader sleeps
  std::uint32_t object_bytes = 64;
  std::uint64_t heap_bytes = std::uint64_t{1} << 30;
  std::uint64_t reads = 200'000;  // per round
  int rounds = 15;
  std::uint64_t seed = 1;
};
// Over shm, against memcpy of the same random addresses in the same order: one
// outstanding (each object names the next), and batches of 16 independent ones.
Result<void> measure_direct_reads(const DirectReadOptions& options, Report& report);

// Against reads of the fabric of the same objects' bytes and no others, into registered
// memory where that makes them faster: one outstanding.
Result<void> measure_against_raw(const DirectReadOptions& options, Report& report);

// Over shm, against reads by request: one client, one outstanding, random objects. The
// keys name the data set unless it is the usual 64 MiB.
Result<void> measure_against_rpc(const DirectReadOptions& options, Report& report);

struct CorrectionOptions {
  std::uint32_t object_bytes = 64;
  std::uint64_t objects = 40'000;  // of which three quarters are freed before compaction
  std::uint64_t reads = 20'000;    // per round
  int rounds = 9;
  std::uint64_t seed = 1;
};
// Reads with pointers that compaction made old, against the same with corrected ones: by
// request, for every strategy of the node (owners: of two threads that serve, of which
// one sleeps, for there is one client); and inside the heap (…_ns: what a correction
// costs; owner_serving: the owner does nothing but answer). And one-sided reads, with
// correction by scan against by request.
Result<void> measure_corrections(const CorrectionOptions& options, Report& report);

}  // namespace yonder::bench
