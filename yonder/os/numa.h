#pragma once
// Numa: which cores and which memory belong together, and how to stay there.
//
// On a machine (or kernel) without NUMA everything works and there is one node,
// 0, with all cores: callers need no second path.
//
// Concurrency: read() from any thread; the object is a value that does not change.
// Lifetime: a value, read once; cores that come later are not in it.

#include <cstddef>
#include <span>
#include <vector>

#include "yonder/base/result.h"

namespace yonder::os {

class Numa {
 public:
  // What this process may use of the machine.
  static Numa read();

  // Whether the kernel knows NUMA nodes at all (also if there is only one).
  bool available() const { return available_; }
  // Ascending, never empty; numbers may have gaps.
  std::span<const int> nodes() const { return nodes_; }
  std::size_t node_count() const { return nodes_.size(); }
  // Errors: kNotFound (no such node / core). A node may have no cores.
  Result<std::span<const int>> cpus_of(int node) const;
  Result<int> node_of(int cpu) const;

  // Memory of the range comes from `node` when it is first touched; pages that
  // exist already are moved. Requires page alignment. With one node it does
  // nothing. Errors: kNotFound (node), kInvalidArgument (alignment), kOutOfMemory, kOsError.
  Result<void> bind_memory(std::span<std::byte> range, int node) const;

  // Keeps the calling thread on these cores. Errors: kNotFound (node),
  // kInvalidArgument (a core that does not exist or is not ours).
  Result<void> pin_thread_to_node(int node) const;
  static Result<void> pin_thread_to_cpu(int cpu);

 private:
  Numa() = default;
  bool available_ = false;
  std::vector<int> nodes_;
  std::vector<std::vector<int>> cpus_;  // Same order as nodes_.
};

}  // namespace yonder::os
