#pragma once
// The verbs figures on a machine without RDMA: this benchmark again, inside the
// Soft-RoCE guest of tools/rdma-vm, and its report merged into ours.
//
// Concurrency: one thread.

#include "bench/harness/benchmark.h"

namespace yonder::bench {

// Runs `yonder bench fabric --fabric verbs` in the guest and adds its ratios and
// results. kNotFound if the script is not beside the build tree (an installed
// program), kProviderUnavailable if the guest or its benchmark failed.
Result<void> add_verbs_from_guest(const Options& options, Report& report);

}  // namespace yonder::bench
