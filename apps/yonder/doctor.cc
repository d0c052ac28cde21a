#include "apps/yonder/doctor.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <string>

#include "yonder/fabric/open/open.h"
#include "yonder/os/membarrier.h"
#include "yonder/os/memfd.h"
#include "yonder/os/numa.h"
#include "yonder/os/userfaultfd.h"

namespace yonder::apps {
namespace {

void line(bool good, std::string_view what, std::string_view remark) {
  fmt::print("  {} {:<18} {}\n", good ? "ok  " : "miss", what, remark);
}

void line(std::string_view what, const Result<void>& result) {
  if (result) {
    line(true, what, "");
  } else {
    line(false, what, fmt::format("{}; {}", result.error().to_string(), error_remedy(result.error().code())));
  }
}

Result<void> try_huge_pages() {
  YONDER_TRY(memfd, os::Memfd::create({.size = 2 << 20, .huge_pages = os::HugePages::kRequire}));
  (void)memfd;
  return {};
}

void show_limits() {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  line(files.rlim_cur >= 4096, "descriptors",
       fmt::format("{} (1,000 connections want 4,096: ulimit -n)", files.rlim_cur));
  rlimit locked{};
  getrlimit(RLIMIT_MEMLOCK, &locked);
  const bool unlimited = locked.rlim_cur == RLIM_INFINITY;
  line(unlimited, "locked memory",
       unlimited ? "unlimited"
                 : fmt::format("{} KiB (RDMA wants: ulimit -l unlimited)", locked.rlim_cur / 1024));
}

}  // namespace

int run_doctor() {
  bool embedded_works = true;
  fmt::print("fabrics\n");
  for (const fabric::ProviderStatus& provider : fabric::probe_providers()) {
    line(provider.name, provider.usable);
    if (provider.name != "verbs") embedded_works &= provider.usable.has_value();
  }
  fmt::print("kernel\n");
  line("userfaultfd", outcome_of(os::Userfaultfd::open({})));
  line(os::Membarrier::available(os::Membarrier::Scope::kGlobal), "membarrier", "");
  line("huge pages", try_huge_pages());
  line(true, "NUMA nodes", std::to_string(os::Numa::read().node_count()));
  show_limits();
  fmt::print("\n{}\n", embedded_works
                           ? "The embedded default works on this machine."
                           : "The embedded default does not work here: see the lines marked miss.");
  return embedded_works ? 0 : 1;
}

}  // namespace yonder::apps
