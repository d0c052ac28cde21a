// Quantities as users type them: an accepted one has an exact form that parses
// back to the same amount.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "yonder/base/units.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto bytes = yonder::parse_bytes(text)) {
    const auto again = yonder::parse_bytes(yonder::exact_string(*bytes));
    if (!again || *again != *bytes) std::abort();
  }
  if (const auto duration = yonder::parse_duration(text)) {
    const auto again = yonder::parse_duration(yonder::exact_string(*duration));
    if (!again || *again != *duration) std::abort();
  }
  (void)yonder::parse_percent(text);
  (void)yonder::parse_bytes_of(text, yonder::Bytes(1 << 30));
  return 0;
}
