#pragma once
// Size classes of the arena: steps of 16 bytes up to 128, then eight per doubling up to
// 32 KiB, so that at most an eighth of an object is not used.
//
// Concurrency: pure functions.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "yonder/heap/slot_store.h"

namespace yonder::heap::internal {

inline constexpr std::size_t kMaxSmallBytes = 32 * 1024;
// 8 up to 128 bytes, and 8 for each of the 8 doublings from there to 32 KiB.
inline constexpr std::size_t kClasses = 8 + 8 * 8;

// Requires 1 <= bytes <= kMaxSmallBytes.
constexpr std::size_t class_of(std::size_t bytes) {
  if (bytes <= 128) return (bytes + 15) / 16 - 1;
  const auto doubling = static_cast<std::size_t>(std::bit_width(bytes - 1)) - 8;  // 129…256: 0.
  const std::size_t step = std::size_t{16} << doubling;
  return 8 + doubling * 8 + (bytes - 1 - (std::size_t{128} << doubling)) / step;
}

constexpr std::size_t class_bytes(std::size_t size_class) {
  if (size_class < 8) return (size_class + 1) * 16;
  const std::size_t doubling = (size_class - 8) / 8;
  const std::size_t step = std::size_t{16} << doubling;
  return (std::size_t{128} << doubling) + ((size_class - 8) % 8 + 1) * step;
}

// How many pages a span of the class has: four, or as many as eight objects need.
constexpr std::size_t class_pages(std::size_t size_class) {
  return std::max<std::size_t>(4, (class_bytes(size_class) * 8 + kPageBytes - 1) / kPageBytes);
}

static_assert(class_of(1) == 0 && class_of(16) == 0 && class_of(17) == 1 && class_of(128) == 7);
static_assert(class_of(129) == 8 && class_bytes(8) == 144 && class_of(256) == 15 && class_bytes(15) == 256);
static_assert(class_of(kMaxSmallBytes) == kClasses - 1 && class_bytes(kClasses - 1) == kMaxSmallBytes);

}  // namespace yonder::heap::internal
