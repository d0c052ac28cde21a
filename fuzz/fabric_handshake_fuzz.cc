// The first bytes of a connection and the tokens in a greeting come from anybody.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>

#include "yonder/fabric/handshake.h"
#include "yonder/fabric/types.h"

namespace {

using yonder::fabric::Hello;
using yonder::fabric::RegionToken;

void check_hello(std::span<const std::byte> bytes) {
  const auto hello = Hello::decode(bytes);
  if (!hello) return;
  const auto agreed = yonder::fabric::agree({}, *hello);
  if (agreed && (agreed->version < hello->min_version || agreed->version > hello->max_version)) std::abort();
}

// An accepted token is exactly the bytes it came from.
void check_token(std::span<const std::byte> bytes) {
  const auto token = RegionToken::decode(bytes);
  if (!token) return;
  std::array<std::byte, RegionToken::kEncodedBytes> again;
  token->encode(again);
  if (std::memcmp(again.data(), bytes.data(), again.size()) != 0) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  check_hello(bytes);
  check_token(bytes);
  return 0;
}
