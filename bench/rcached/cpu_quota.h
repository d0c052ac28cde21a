#pragma once
// CpuQuota: threads that may have only so much of a core, all of them together: as if the machine
// that they serve on were slower, while other threads of their process are as fast as ever.
//
//   YONDER_TRY(quota, CpuQuota::create("server-1", 0.25));  // A millisecond of each four.
//   YONDER_TRY_VOID(quota.take_threads(pid, "cache-worker"));
//
// Needs root and the cpu controller of cgroup v1; that of v2 takes no single threads of a process that
// has others elsewhere.
//
// Concurrency: one thread. Lifetime: move-only; threads leave and the group goes with this. What a
// killed process has left behind, the next one removes when it is empty.

#include <sys/types.h>

#include <string>
#include <string_view>
#include <utility>

#include "yonder/base/result.h"

namespace yonder::bench {

class CpuQuota {
 public:
  // Requires a share of 0.01 to 1. kUnsupported: this machine, or this user, cannot.
  static Result<CpuQuota> create(const std::string& name, double share);
  CpuQuota(CpuQuota&& other) noexcept : group_(std::exchange(other.group_, {})) {}
  CpuQuota& operator=(CpuQuota&&) = delete;
  ~CpuQuota();

  // Those of the process that have this name. kNotFound: none has.
  Result<void> take_threads(pid_t process, std::string_view name);

 private:
  explicit CpuQuota(std::string group) : group_(std::move(group)) {}

  std::string group_;  // Its folder; empty: moved from.
};

}  // namespace yonder::bench
