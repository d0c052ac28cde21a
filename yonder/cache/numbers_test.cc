#include "yonder/cache/numbers.h"

#include <gtest/gtest.h>

namespace yonder::cache {
namespace {

TEST(Numbers, ReadsDigitsWithASignAndWhiteSpaceAroundThem) {
  EXPECT_EQ(parse_i32("42"), 42);
  EXPECT_EQ(parse_i32("-42"), -42);
  EXPECT_EQ(parse_i32("+42"), 42);
  EXPECT_EQ(parse_i32("\t 42"), 42);
  EXPECT_EQ(parse_i32("42\tanything"), 42);
  EXPECT_EQ(parse_u64(std::string_view("42\0x", 4)), 42u);
}

TEST(Numbers, RefusesWhatIsNoNumber) {
  for (const char* text : {"", " ", "-", "+", "x", "4x", "x4", "0x10", "1.5"}) {
    EXPECT_FALSE(parse_i32(text)) << text;
    EXPECT_FALSE(parse_u32(text)) << text;
    EXPECT_FALSE(parse_u64(text)) << text;
  }
}

TEST(Numbers, CutsWideNumbersTo32Bits) {
  EXPECT_EQ(parse_u32("4294967296"), 0u);
  EXPECT_EQ(parse_u32("4294967301"), 5u);
  EXPECT_EQ(parse_i32("4294967300"), 4);
  EXPECT_EQ(parse_i32("2147483648"), -2147483647 - 1);
}

TEST(Numbers, RefusesWhatDoesNotFitIn64Bits) {
  EXPECT_EQ(parse_u64("18446744073709551615"), UINT64_MAX);
  EXPECT_FALSE(parse_u64("18446744073709551616"));
  EXPECT_FALSE(parse_u64("99999999999999999999999"));
  EXPECT_TRUE(parse_i32("-9223372036854775808"));
  EXPECT_FALSE(parse_i32("9223372036854775808"));
  EXPECT_FALSE(parse_i32("-9223372036854775809"));
}

TEST(Numbers, RefusesAMinusOnlyIfItMakesTheNumberLarge) {
  EXPECT_FALSE(parse_u64("-1"));
  EXPECT_EQ(parse_u64("-0"), 0u);
  EXPECT_EQ(parse_u64("-18446744073709551615"), 1u);
}

TEST(Numbers, ReadsDecimalsTheSameWay) {
  EXPECT_EQ(parse_decimal("0.5"), 0.5);
  EXPECT_EQ(parse_decimal(" -2"), -2.0);
  EXPECT_EQ(parse_decimal("2.0\rmore"), 2.0);
  EXPECT_FALSE(parse_decimal("2.0x"));
  EXPECT_FALSE(parse_decimal(""));
}

}  // namespace
}  // namespace yonder::cache
