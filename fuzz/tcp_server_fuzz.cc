// A peer sends requests: the target, with a region whose key the input names.
#include <cstddef>
#include <cstdint>
#include <span>

#include "yonder/fabric/tcp/hostile_bytes.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  yonder::fabric::tcp::serve_hostile_bytes(std::as_bytes(std::span(data, size)));
  return 0;
}
