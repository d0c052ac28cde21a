#pragma once
// What the host tells a caller: verdicts of workers, and ends of processes, as errors.
//
// Concurrency and lifetime: values; tell() calls foreign code, so without a lock.

#include <cstdint>
#include <span>
#include <vector>

#include "yonder/base/error.h"
#include "yonder/offload/function.h"
#include "yonder/offload/host.h"
#include "yonder/os/process.h"

namespace yonder::offload::internal {

// A caller that is to be told.
struct Finished {
  Done done;
  ErrorCode code = ErrorCode::kOk;
  std::int64_t detail = 0;
  std::span<const std::byte> result;
};

inline void tell(std::vector<Finished>& finishes) {
  for (Finished& each : finishes)
    each.done({.code = each.code, .detail = each.detail, .result = each.result});
}

// kOk for kDone.
Error error_of(Verdict verdict, std::int64_t detail);
// Of a process that ended while it ran a function.
Error error_of(const os::ExitStatus& status);

}  // namespace yonder::offload::internal
