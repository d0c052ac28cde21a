#include "yonder/cache/base64.h"

#include <gtest/gtest.h>

#include <string>

#include "yonder/base/prng.h"
#include "yonder/testing/seed.h"

namespace yonder::cache {
namespace {

std::optional<std::string> decode(std::string_view text) {
  std::string out(text.size(), '\0');
  const auto size = decode_base64(text, out);
  if (!size) return std::nullopt;
  return out.substr(0, *size);
}

std::string encode(std::string_view bytes) {
  std::string out(base64_bytes(bytes.size()), '\0');
  EXPECT_EQ(encode_base64(bytes, out), out.size());
  return out;
}

TEST(Base64, KnownPairs) {
  EXPECT_EQ(encode("a"), "YQ==");
  EXPECT_EQ(encode("ab"), "YWI=");
  EXPECT_EQ(encode("abc"), "YWJj");
  EXPECT_EQ(decode("YQ=="), "a");
  EXPECT_EQ(decode("YWI="), "ab");
  EXPECT_EQ(decode("////"), "\xff\xff\xff");
}

TEST(Base64, SkipsForeignCharactersAndStopsAtPadding) {
  EXPECT_EQ(decode("Y!W@J#j"), "abc");
  EXPECT_EQ(decode("YQ==YQ=="), "a");
}

TEST(Base64, RefusesWhatIsIncomplete) {
  for (const char* text : {"", "!", "a", "ab", "abc", "abcde", "====", "a==="})
    EXPECT_FALSE(decode(text)) << text;
}

TEST(Base64, RefusesToWritePastItsOutput) {
  std::string small(2, '\0');
  EXPECT_FALSE(decode_base64("YWJj", small));
}

TEST(Base64, GivesBackWhatItEncoded) {
  Prng prng(testing::test_seed());
  for (int i = 0; i < 1000; ++i) {
    std::string bytes(1 + prng.below(250), '\0');
    for (char& c : bytes) c = static_cast<char>(prng());
    EXPECT_EQ(decode(encode(bytes)), bytes);
  }
}

}  // namespace
}  // namespace yonder::cache
