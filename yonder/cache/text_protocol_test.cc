#include "yonder/cache/text_protocol.h"

#include <gtest/gtest.h>

#include <string>

namespace yonder::cache {
namespace {

LineError error_of(std::string_view line) { return parse_storage(CommandLine(line)).error(); }

TEST(CommandLine, CutsAtSpacesOnly) {
  const CommandLine line("  get  a\tb c\r ");
  ASSERT_EQ(line.size(), 3u);
  EXPECT_EQ(line[0], "get");
  EXPECT_EQ(line[1], "a\tb");
  EXPECT_EQ(line[2], "c\r");
  EXPECT_EQ(line[3], "");
  EXPECT_EQ(CommandLine(std::string_view("get a\0b c", 9)).size(), 2u);
}

TEST(CommandLine, LeavesTheRestAfterItsLastWord) {
  std::string text;
  for (int i = 0; i < 30; ++i) text += "w" + std::to_string(i) + " ";
  const CommandLine line(text);
  EXPECT_EQ(line.size(), CommandLine::kMaxTokens);
  EXPECT_EQ(line[22], "w22");
  std::string_view rest = line.rest();
  EXPECT_EQ(next_token(rest), "w23");
}

TEST(TextProtocol, ReadsStorageLines) {
  const auto set = parse_storage(CommandLine("set key 5 100 7 noreply"));
  ASSERT_TRUE(set);
  EXPECT_EQ(set->key, "key");
  EXPECT_EQ(set->flags, 5u);
  EXPECT_EQ(set->exptime, 100);
  EXPECT_EQ(set->value_bytes, 7u);
  EXPECT_TRUE(set->noreply);
  const auto cas = parse_storage(CommandLine("cas key 0 0 1 42"));
  ASSERT_TRUE(cas);
  EXPECT_EQ(cas->cas, 42u);
  EXPECT_FALSE(cas->noreply);
}

TEST(TextProtocol, ComplainsAsMemcachedDoes) {
  EXPECT_EQ(error_of("set").reply, "ERROR");
  EXPECT_EQ(error_of("set k 0 0").reply, "ERROR");
  EXPECT_EQ(error_of("set k 0 0 1 noreply more").reply, "ERROR");
  EXPECT_EQ(error_of("cas k 0 0 1").reply, "ERROR");
  EXPECT_EQ(error_of("set " + std::string(251, 'k') + " 0 0 1").reply, kBadFormat);
  for (const char* line : {"set k x 0 1", "set k 0 x 1", "set k 0 0 x", "set k 0 0 -1",
                           "set k 0 0 2147483646", "cas k 0 0 1 x"}) {
    EXPECT_EQ(error_of(line).reply, kBadFormat) << line;
    EXPECT_FALSE(error_of(line).silent);
  }
  EXPECT_TRUE(error_of("set k 0 0 -1 noreply").silent);
}

TEST(TextProtocol, TurnsTimesIntoDates) {
  constexpr Seconds kStarted = 1'700'000'000;
  constexpr Seconds kNow = kStarted + 50;
  constexpr std::int32_t kMonth = 60 * 60 * 24 * 30;
  EXPECT_EQ(expiry_of(0, kNow, kStarted), 0u);
  EXPECT_EQ(expiry_of(-1, kNow, kStarted), kAlreadyExpired);
  EXPECT_EQ(expiry_of(1, kNow, kStarted), kNow + 1);
  EXPECT_EQ(expiry_of(kMonth, kNow, kStarted), kNow + kMonth);
  EXPECT_EQ(expiry_of(kMonth + 1, kNow, kStarted), kAlreadyExpired) << "a date of 1970";
  EXPECT_EQ(expiry_of(kNow + 100, kNow, kStarted), kNow + 100);
}

}  // namespace
}  // namespace yonder::cache
