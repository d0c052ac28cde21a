// A target answers what it likes: the initiator, with eight requests under way.
#include <cstddef>
#include <cstdint>
#include <span>

#include "yonder/fabric/tcp/hostile_bytes.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  yonder::fabric::tcp::answer_with_hostile_bytes(std::as_bytes(std::span(data, size)));
  return 0;
}
