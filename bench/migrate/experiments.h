#pragma once
// The parts of `yonder bench migrate`, and what they share.
//
//   report_pauses     how long nobody can use a segment at a transfer, by its size
//   report_access     latency of a map's gets right after its transfer
//   report_bandwidth  time until all is local, against the link
//   report_source     the source's throughput while it is drained
//   report_container  containers that do not move, against std's
//
// Concurrency: one thread. Lifetime: values.

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "bench/harness/benchmark.h"
#include "bench/harness/report.h"
#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/base/units.h"
#include "yonder/segment/agent.h"
#include "yonder/segment/migratable.h"

namespace yonder::bench {

using MigrateValue = std::array<std::uint64_t, 16>;  // 128 bytes, as in the paper
using MigrateMap = segment::unordered_map<std::uint64_t, MigrateValue>;

inline constexpr std::uint64_t kMapEntries = 1'000'000;
inline constexpr Bytes kMapBytes = 256_MiB;

MigrateValue value_of(std::uint64_t key);
// A deadline that only a broken run reaches.
Deadline soon();
// Nothing is still to arrive at the agent.
bool is_local(segment::Agent& agent);
// Whether a provider's figures also stand under the keys without its name.
bool is_main(const std::string& provider, const Options& options);

Result<void> report_pauses(const std::string& provider, const Options& options, Report& report);
Result<void> report_access(const std::string& provider, const Options& options, Report& report);
Result<void> report_bandwidth(const std::string& provider, const Options& options, Report& report);
Result<void> report_source(const std::string& provider, const Options& options, Report& report);
Result<void> report_container(const Options& options, Report& report);

}  // namespace yonder::bench
