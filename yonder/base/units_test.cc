#include "yonder/base/units.h"

#include <gtest/gtest.h>

#include "yonder/base/prng.h"
#include "yonder/testing/seed.h"

namespace yonder {
namespace {

using namespace std::chrono_literals;

TEST(Units, ReadsByteAmounts) {
  EXPECT_EQ(parse_bytes("64KiB").value(), 64_KiB);
  EXPECT_EQ(parse_bytes("1.5 GiB").value(), 1536_MiB);
  EXPECT_EQ(parse_bytes("4096").value(), 4_KiB);
  EXPECT_EQ(parse_bytes("2MB").value(), Bytes(2'000'000));
  EXPECT_EQ(parse_bytes("18446744073709551615").value(), Bytes::max());
}

TEST(Units, RefusesWhatIsNoByteAmount) {
  for (const char* text : {"", " ", "KiB", "-1", "+1", "1.", ".5KiB", "1kib", "1 Kib", "12KiBx", "0x10",
                           "1e3", "0.1KiB", "0.0000001GiB", "18446744073709551616", "16777216TiB"}) {
    EXPECT_FALSE(parse_bytes(text).has_value()) << text;
  }
}

TEST(Units, ReadsDurations) {
  EXPECT_EQ(parse_duration("50us").value(), 50us);
  EXPECT_EQ(parse_duration("3s").value(), 3s);
  EXPECT_EQ(parse_duration("1.5us").value(), 1500ns);
  EXPECT_EQ(parse_duration("2 h").value(), 2h);
  EXPECT_EQ(parse_duration("0").value(), 0ns);
}

TEST(Units, RefusesADurationWithoutUnitOrOverTheRange) {
  EXPECT_STREQ(parse_duration("50").error().message(), "a duration needs a unit: ns us ms s m h d");
  EXPECT_FALSE(parse_duration("200000000000m").has_value());
  EXPECT_FALSE(parse_duration("0.5ns").has_value());
  EXPECT_FALSE(parse_duration("1sec").has_value());
}

TEST(Units, ReadsShares) {
  EXPECT_DOUBLE_EQ(parse_percent("25%").value(), 0.25);
  EXPECT_DOUBLE_EQ(parse_percent("12.5 %").value(), 0.125);
  EXPECT_FALSE(parse_percent("25").has_value());
  EXPECT_FALSE(parse_percent("101%").has_value());
  EXPECT_EQ(parse_bytes_of("25%", 4_GiB).value(), 1_GiB);
  EXPECT_EQ(parse_bytes_of("2GiB", 4_GiB).value(), 2_GiB);
  EXPECT_EQ(parse_bytes_of("100%", Bytes::max()).value(), Bytes::max());
  EXPECT_FALSE(parse_bytes_of("100.1%", 4_GiB).has_value());
  EXPECT_FALSE(parse_bytes_of("1KiB%", 4_GiB).has_value());
}

TEST(Units, RoundsForPeople) {
  EXPECT_EQ(to_string(0_B), "0 B");
  EXPECT_EQ(to_string(1023_B), "1023 B");
  EXPECT_EQ(to_string(1536_KiB), "1.5 MiB");
  EXPECT_EQ(to_string(Duration(1'234'567)), "1.23 ms");
  EXPECT_EQ(to_string(Duration(-1500)), "-1.5 us");
  EXPECT_EQ(to_string(Duration(95s)), "95 s");
  EXPECT_EQ(to_string(Duration(300s)), "300 s");
  EXPECT_EQ(count_string(950), "950");
  EXPECT_EQ(count_string(12'345), "12.3 k");
}

TEST(Units, ExactTextReadsBackAsTheSameValue) {
  EXPECT_EQ(exact_string(64_KiB), "64KiB");
  EXPECT_EQ(exact_string(1000_B), "1000B");
  EXPECT_EQ(exact_string(Duration(1500us)), "1500us");
  EXPECT_EQ(exact_string(Duration::min()), "-9223372036854775808ns");
  Prng prng(testing::test_seed());
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t value = prng() >> prng.between(1, 63);
    EXPECT_EQ(parse_bytes(exact_string(Bytes(value))).value(), Bytes(value));
    const Duration duration(static_cast<std::int64_t>(value));
    EXPECT_EQ(parse_duration(exact_string(duration)).value(), duration);
  }
}

}  // namespace
}  // namespace yonder
