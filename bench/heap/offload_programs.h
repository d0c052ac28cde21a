#pragma once
// The two programs of the paper's Figure 8 with their heavy part on the node: the columns of DF
// and the elements of WS lie in an offload space; the rest is as in data_frame.cc and
// web_service.cc, and must come to the same checksums.
//
// Concurrency: each starts its threads and ends them. Lifetime: values.

#include <string>

#include "bench/heap/run.h"
#include "bench/heap/workload.h"

namespace yonder::bench::heap {

struct OffloadWork {
  Work work;
  Bytes local{0};    // Of all far memory together.
  std::string node;  // With functions.
};

// Errors of far memory and of calls.
Result<Figure> run_data_frame_offloaded(const OffloadWork& work);
Result<Figure> run_web_service_offloaded(const OffloadWork& work);

}  // namespace yonder::bench::heap
