// shm_bench [--quick]: the figures of the shm provider as a table, until
// `yonder bench fabric` shows them with those of the other providers.
#include <cstdio>
#include <cstring>

#include "bench/fabric/shm_bench.h"
#include "bench/harness/report.h"

namespace {

using namespace yonder;
using namespace yonder::bench;

int report_error(const Error& error) {
  std::fprintf(stderr, "shm_bench: %s\n", error.to_string().c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::strcmp(argv[1], "--quick") == 0;
  std::vector<ShmReadOptions> reads;
  for (const std::uint32_t batch : {1u, 16u}) {
    for (const std::uint32_t size : {64u, 1024u, 4096u}) {
      ShmReadOptions options{.size = size, .batch = batch};
      if (quick) options.memory_bytes = std::size_t{64} << 20;
      if (quick) options.rounds = 3;
      reads.push_back(options);
    }
  }
  const auto results = measure_shm_reads(reads);
  if (!results) return report_error(results.error());
  std::printf("%6s %6s %10s %10s %8s %8s\n", "bytes", "batch", "ours ns", "memcpy ns", "ratio", "allocs");
  for (std::size_t i = 0; i < reads.size(); ++i) {
    const ShmReadResult& r = (*results)[i];
    std::printf("%6u %6u %10.1f %10.1f %8.3f %8.4f\n", reads[i].size, reads[i].batch, r.ours_ns, r.memcpy_ns,
                median(r.ratios), r.allocations_per_read);
  }
  for (const bool shared : {false, true}) {
    const auto messages = measure_shm_messages({.rounds = quick ? 3 : 41, .shared_receive_queue = shared});
    if (!messages) return report_error(messages.error());
    std::printf("message round trip%s: %.1f ns, bare line %.1f ns, ratio %.2f\n",
                shared ? " (shared receive queue)" : "", messages->ours_ns, messages->line_ns,
                median(messages->ratios));
  }
  return 0;
}
