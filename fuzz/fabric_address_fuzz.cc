// An address is typed by users and sent by peers: parsing it must never crash,
// and what was accepted must print and parse to itself.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "yonder/fabric/address.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto first = yonder::fabric::parse_address(text);
  // "?a" prints as "?a=on", which may be too long to be an address.
  if (!first || first->to_string().size() > yonder::fabric::kMaxAddressLength) return 0;
  const auto second = yonder::fabric::parse_address(first->to_string());
  if (!second || *second != *first) std::abort();
  return 0;
}
