#pragma once
// Bytes that say of themselves whether they are whole: one number, repeated.
//
// Concurrency: pure functions.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace yonder::testing {

inline std::vector<std::byte> pattern(std::size_t bytes, std::uint64_t number) {
  std::vector<std::byte> out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>(number >> (8 * (i % 8)));
  return out;
}

// The number (its low bytes, if there are fewer than 8); ~0 if the bytes are not whole.
inline std::uint64_t number_in(std::span<const std::byte> bytes) {
  std::uint64_t number = 0;
  std::memcpy(&number, bytes.data(), std::min(bytes.size(), sizeof number));
  const std::vector<std::byte> whole = pattern(bytes.size(), number);
  return std::memcmp(whole.data(), bytes.data(), bytes.size()) == 0 ? number : ~std::uint64_t{0};
}

}  // namespace yonder::testing
