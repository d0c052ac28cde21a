// A peer sends frames: the parser, whole and in pieces.
#include <cstddef>
#include <cstdint>
#include <span>

#include "yonder/fabric/tcp/hostile_bytes.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  yonder::fabric::tcp::parse_hostile_bytes(std::as_bytes(std::span(data, size)));
  return 0;
}
