#include "yonder/structures/internal/registered_memory.h"

#include "yonder/os/numa.h"

namespace yonder::structures::internal {

Result<RegisteredMemory> RegisteredMemory::create(fabric::Fabric& fabric,
                                                  const RegisteredMemoryOptions& options) {
  YONDER_TRY(file, os::Memfd::create({.name = options.name, .size = options.bytes}));
  YONDER_TRY(mapping, os::Mapping::of_file(file.fd(),
                                           {.bytes = file.size(), .protection = os::Protection::kReadWrite}));
  if (options.numa_node) YONDER_TRY_VOID(os::Numa::read().bind_memory(mapping.bytes(), *options.numa_node));
  YONDER_TRY_VOID(mapping.populate_write(0, mapping.size()));
  YONDER_TRY(region, fabric.register_memory({.memory = mapping.bytes(),
                                             .rights = options.rights,
                                             .backing = fabric::Backing{.fd = file.fd().get()}}));
  return RegisteredMemory(std::move(mapping), std::move(region));
}

}  // namespace yonder::structures::internal
