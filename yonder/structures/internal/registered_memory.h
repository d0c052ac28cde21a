#pragma once
// Zeroed memory that peers may reach: pages of a memfd, so that `shm` peers of other
// processes map them, registered as one region.
//
// Concurrency: as fabric::Region. Lifetime: move-only; revokes, then unmaps.

#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include "yonder/base/result.h"
#include "yonder/fabric/fabric.h"
#include "yonder/fabric/region.h"
#include "yonder/os/mapping.h"
#include "yonder/os/memfd.h"

namespace yonder::structures::internal {

struct RegisteredMemoryOptions {
  const char* name = "yonder-structures";  // Shown in /proc/PID/maps.
  std::size_t bytes = 0;
  fabric::Rights rights = fabric::Rights::kRead;
  std::optional<int> numa_node;  // Where its pages come from.
};

class RegisteredMemory {
 public:
  RegisteredMemory() = default;
  // Errors: those of Memfd::create, Mapping::of_file, Numa::bind_memory and
  // Fabric::register_memory.
  static Result<RegisteredMemory> create(fabric::Fabric& fabric, const RegisteredMemoryOptions& options);

  std::span<std::byte> bytes() const { return mapping_.bytes(); }
  fabric::RegionToken token() const { return region_.token(); }
  fabric::LocalKey local_key() const { return region_.local_key(); }
  // Peers reach it no longer. Idempotent.
  void revoke() {
    if (region_) region_.revoke();
  }

 private:
  RegisteredMemory(os::Mapping mapping, fabric::Region region)
      : mapping_(std::move(mapping)), region_(std::move(region)) {}

  os::Mapping mapping_;
  fabric::Region region_;  // After the mapping: it goes first.
};

}  // namespace yonder::structures::internal
