#include "yonder/base/fixed_layout.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace yonder {
namespace {

TEST(FixedLayout, FieldsAreLittleEndianAtTheirPlaces) {
  std::array<std::byte, 8> message{};
  put_field(std::span<std::byte>(message), 1, std::uint16_t{0x0102});
  put_field(std::span<std::byte>(message), 4, std::uint32_t{0x0a0b0c0d});
  const std::array<std::byte, 8> expected{std::byte{0},    std::byte{2},    std::byte{1},    std::byte{0},
                                          std::byte{0x0d}, std::byte{0x0c}, std::byte{0x0b}, std::byte{0x0a}};
  EXPECT_EQ(message, expected);
  EXPECT_EQ(get_field<std::uint16_t>(message, 1), 0x0102);
  EXPECT_EQ(get_field<std::uint32_t>(message, 4), 0x0a0b0c0du);
}

}  // namespace
}  // namespace yonder
