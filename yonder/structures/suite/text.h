#pragma once
// Texts as bytes, for tests.
//
// Concurrency: pure functions. Lifetime: views live as long as the text.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace yonder::structures::suite {

inline std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }
inline std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace yonder::structures::suite
