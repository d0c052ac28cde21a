#pragma once
// The scan of `yonder bench prefetch`, as a workload: pages of numbers, read in order by one
// thread, twice. An operation is a byte.

#include "bench/heap/workload.h"

namespace yonder::bench::heap {

const Workload& scan_workload();

}  // namespace yonder::bench::heap
