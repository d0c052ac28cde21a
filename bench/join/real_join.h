#pragma once
// The join of executors on this machine, each with a thread, over a real provider.
//
// Concurrency: starts a thread per executor. Lifetime: values.

#include <cstdint>
#include <span>
#include <string_view>

#include "bench/join/local_join.h"
#include "yonder/base/result.h"

namespace yonder::bench {

struct RealJoinOptions {
  std::string_view provider = "shm";
  std::uint32_t executors = 2;
};

// Executor i has the i-th part of both arrays. The time is from the start of the
// executors' threads to the end of the last.
Result<LocalJoin> run_real_join(std::span<const Tuple> build, std::span<const Tuple> probe,
                                const RealJoinOptions& options);

}  // namespace yonder::bench
