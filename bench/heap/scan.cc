#include "bench/heap/scan.h"

#include <vector>

#include "bench/heap/memory.h"
#include "bench/heap/workers.h"
#include "yonder/heap/slot_store.h"

namespace yonder::bench::heap {
namespace {

constexpr unsigned kPasses = 2;

template <typename Memory>
Measured run_scan(const Work& work) {
  std::vector<typename Memory::template Ptr<std::uint64_t[]>> pages(work.bytes / far::kPageBytes);
  std::uint64_t number = work.seed;
  for (auto& page : pages) {
    page = Memory::template make_array<std::uint64_t>(far::kPageBytes / sizeof(std::uint64_t));
    for (std::uint64_t& word : page.write()) word = number++;
  }
  if (work.on_measure) work.on_measure();
  const Instant begin = os::SteadyClock::read();
  Measured measured;
  for (unsigned pass = 0; pass < kPasses; ++pass) {
    for (const auto& page : pages) {
      // Four sums: one would wait for itself, and the processor would be what is measured.
      std::uint64_t sums[4] = {};
      const auto words = page.read();
      for (std::size_t i = 0; i < words.size(); i += 4)
        for (std::size_t k = 0; k < 4; ++k) sums[k] += words[i + k];
      measured.checksum += sums[0] + sums[1] + sums[2] + sums[3];
    }
  }
  measured.operations = kPasses * pages.size() * far::kPageBytes;
  return finish(work, {&measured, 1}, seconds_since(begin));
}

constexpr Workload kScan{"scan", &run_scan<Far>, &run_scan<Plain>, &run_scan<Faulted>};

}  // namespace

const Workload& scan_workload() { return kScan; }

}  // namespace yonder::bench::heap
