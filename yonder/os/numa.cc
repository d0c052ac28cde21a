#include "yonder/os/numa.h"

#include <numa.h>
#include <numaif.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <mutex>

#include "yonder/os/mapping.h"

namespace yonder::os {
namespace {

using Bitmask = std::unique_ptr<bitmask, decltype(&::numa_bitmask_free)>;

std::vector<int> cpus_of_node(int node) {
  const Bitmask mask(::numa_allocate_cpumask(), &::numa_bitmask_free);
  std::vector<int> cpus;
  if (::numa_node_to_cpus(node, mask.get()) != 0) return cpus;
  for (unsigned cpu = 0; cpu < mask->size; ++cpu)
    if (::numa_bitmask_isbitset(mask.get(), cpu) != 0) cpus.push_back(static_cast<int>(cpu));
  return cpus;
}

std::vector<int> all_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(static_cast<unsigned>(cpu), &set)) cpus.push_back(cpu);
  return cpus;
}

Result<void> pin_to(std::span<const int> cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) {
    if (cpu < 0 || cpu >= CPU_SETSIZE) return fail(ErrorCode::kInvalidArgument, "pin thread to core", cpu);
    CPU_SET(static_cast<unsigned>(cpu), &set);
  }
  if (::sched_setaffinity(0, sizeof set, &set) == 0) return {};
  // The kernel refuses a set without a usable core.
  if (errno == EINVAL)
    return fail(ErrorCode::kInvalidArgument, "pin thread to core", cpus.empty() ? -1 : cpus[0]);
  return fail_errno("sched_setaffinity");
}

}  // namespace

Numa Numa::read() {
  // libnuma fills tables of its own when it is first asked, without a lock.
  static std::mutex first_use;
  const std::lock_guard lock(first_use);
  Numa numa;
  numa.available_ = ::numa_available() >= 0;
  if (numa.available_) {
    for (int node = 0; node <= ::numa_max_node(); ++node) {
      if (::numa_bitmask_isbitset(::numa_all_nodes_ptr, static_cast<unsigned>(node)) == 0) continue;
      numa.nodes_.push_back(node);
      numa.cpus_.push_back(cpus_of_node(node));
    }
  }
  if (numa.nodes_.empty()) {
    numa.nodes_.push_back(0);
    numa.cpus_.push_back(all_cpus());
  }
  return numa;
}

Result<std::span<const int>> Numa::cpus_of(int node) const {
  const auto found = std::ranges::find(nodes_, node);
  if (found == nodes_.end()) return fail(ErrorCode::kNotFound, "NUMA node", node);
  return std::span<const int>(cpus_[static_cast<std::size_t>(found - nodes_.begin())]);
}

Result<int> Numa::node_of(int cpu) const {
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    if (std::ranges::find(cpus_[i], cpu) != cpus_[i].end()) return nodes_[i];
  return fail(ErrorCode::kNotFound, "core", cpu);
}

Result<void> Numa::bind_memory(std::span<std::byte> range, int node) const {
  YONDER_TRY_VOID(cpus_of(node));
  if (reinterpret_cast<std::uintptr_t>(range.data()) % kPageBytes != 0)
    return fail(ErrorCode::kInvalidArgument, "bind memory to a NUMA node", node);
  if (!available_ || nodes_.size() == 1) return {};
  const Bitmask mask(::numa_allocate_nodemask(), &::numa_bitmask_free);
  ::numa_bitmask_setbit(mask.get(), static_cast<unsigned>(node));
  if (::mbind(range.data(), range.size(), MPOL_BIND, mask->maskp, mask->size + 1, MPOL_MF_MOVE) != 0)
    return fail_errno("mbind");
  return {};
}

Result<void> Numa::pin_thread_to_node(int node) const {
  YONDER_TRY(cpus, cpus_of(node));
  return pin_to(cpus);
}

Result<void> Numa::pin_thread_to_cpu(int cpu) { return pin_to(std::span(&cpu, 1)); }

}  // namespace yonder::os
