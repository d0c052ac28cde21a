#pragma once
// `yonder bench ycsb`: the YCSB core workloads on objects, one-sided reads against
// reads by request.
//
//   A  half reads, half updates        D  95 % reads of the latest, 5 % inserts
//   B  95 % reads, 5 % updates         E  95 % short scans, 5 % inserts
//   C  reads only                      F  half reads, half read-modify-writes
//
// Keys are numbers; the benchmark keeps the pointer of each, as an index would. A
// scan is a batch of reads of keys that follow each other. Reads are one-sided in
// one round and requests in the next; writes and inserts are requests in both.
//
// A *failed* direct read is a copy that had to be made again: torn, of an object
// being written, or by an old translation (the paper's Figure 12).
//
// Concurrency: starts `clients` threads for each round.

#include <cstdint>

#include "bench/harness/benchmark.h"
#include "bench/harness/report.h"
#include "yonder/base/result.h"

namespace yonder::bench {

Result<void> run_ycsb_bench(const Options& options, Report& report);

struct YcsbOptions {
  char workload = 'A';
  std::string_view provider = "shm";
  std::uint64_t records = 100'000;
  std::uint32_t record_bytes = 100;
  double theta = 0.99;
  unsigned clients = 8;
  std::uint64_t operations = 20'000;  // per client and round
  int rounds = 9;
  std::uint64_t seed = 1;
};
Result<void> measure_ycsb(const YcsbOptions& options, Report& report);

}  // namespace yonder::bench
