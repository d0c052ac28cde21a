#include "bench/heap/heap_bench.h"

#include <string>
#include <vector>

#include "bench/heap/settings.h"
#include "bench/heap/sweep.h"

namespace yonder::bench {

Result<void> run_heap_bench(const Options& options, Report& report) {
  YONDER_TRY(settings, heap::Settings::read(options));
  settings.describe(report);
  return for_providers(options, report, {"shm", "tcp"}, [&](const std::string& provider) {
    heap::Sweep sweep({.workloads = settings.workloads,
                       .locals = settings.locals,
                       .work = settings.work,
                       .rounds = settings.rounds,
                       .provider = provider,
                       .prefix = key_prefix(options, provider)},
                      report);
    return sweep.run();
  });
}

}  // namespace yonder::bench
