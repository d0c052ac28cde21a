#include "bench/heap/workload.h"

#include <algorithm>
#include <array>

#include "bench/heap/data_frame.h"
#include "bench/heap/key_value.h"
#include "bench/heap/memory.h"
#include "bench/heap/page_rank.h"
#include "bench/heap/page_views.h"
#include "bench/heap/triangles.h"
#include "bench/heap/web_service.h"
#include "bench/heap/word_count.h"

namespace yonder::bench::heap {
namespace {

constexpr double kGraphShare = 0.25;

constexpr std::array kWorkloads = {
    Workload{"MCD-CL", &run_mcd_cl<Far>, &run_mcd_cl<Plain>, &run_mcd_cl<Faulted>},
    Workload{"MCD-U", &run_mcd_u<Far>, &run_mcd_u<Plain>, &run_mcd_u<Faulted>},
    Workload{"GPR", &run_page_rank<Far>, &run_page_rank<Plain>, &run_page_rank<Faulted>, kGraphShare},
    Workload{"ATC", &run_triangles<Far>, &run_triangles<Plain>, &run_triangles<Faulted>, kGraphShare},
    Workload{"MWC", &run_word_count<Far>, &run_word_count<Plain>, &run_word_count<Faulted>},
    Workload{"MPVC", &run_page_views<Far>, &run_page_views<Plain>, &run_page_views<Faulted>},
    Workload{"DF", &run_data_frame<Far>, &run_data_frame<Plain>, &run_data_frame<Faulted>},
    Workload{"WS", &run_web_service<Far>, &run_web_service<Plain>, &run_web_service<Faulted>},
};

}  // namespace

std::span<const Workload> all_workloads() { return kWorkloads; }

const Workload* find_workload(std::string_view name) {
  const auto found = std::ranges::find(kWorkloads, name, &Workload::name);
  return found == kWorkloads.end() ? nullptr : &*found;
}

Measured total(std::span<const Measured> threads, double seconds) {
  Measured sum;
  sum.seconds = seconds;
  for (const Measured& each : threads) {
    sum.operations += each.operations;
    sum.checksum += each.checksum;
    sum.wrong_objects += each.wrong_objects;
    sum.latency_ns.merge(each.latency_ns);
  }
  return sum;
}

Measured finish(const Work& work, std::span<const Measured> threads, double seconds) {
  Measured sum = total(threads, seconds);
  if (work.on_end) work.on_end(sum);
  return sum;
}

}  // namespace yonder::bench::heap
