#include "yonder/base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "yonder/base/result.h"

namespace yonder {
namespace {

TEST(Error, NumbersAreUniqueAndNamed) {
  std::set<int> numbers;
#define YONDER_ERROR(number, name, cause, remedy)                 \
  EXPECT_TRUE(numbers.insert(number).second) << #name;            \
  EXPECT_EQ(error_name(ErrorCode::k##name), #name);               \
  EXPECT_FALSE(error_cause(ErrorCode::k##name).empty()) << #name; \
  EXPECT_FALSE(error_remedy(ErrorCode::k##name).empty()) << #name;
#include "yonder/base/error_codes.inc"
#undef YONDER_ERROR
}

// The rows "| number | code | cause | remedy |" of docs/errors.md, with the header rows left out.
std::vector<std::string> documented_rows() {
  std::ifstream page(YONDER_SOURCE_DIR "/docs/errors.md");
  std::vector<std::string> rows;
  for (std::string line; std::getline(page, line);) {
    if (line.size() > 2 && line[0] == '|' && line[2] >= '0' && line[2] <= '9') rows.push_back(line);
  }
  return rows;
}

TEST(Error, DocumentationHasExactlyTheseCodesInThisOrder) {
  std::vector<std::string> expected;
#define YONDER_ERROR(number, name, cause, remedy) \
  expected.push_back("| " #number " | " #name " | " cause " | " remedy " |");
#include "yonder/base/error_codes.inc"
#undef YONDER_ERROR
  EXPECT_THAT(documented_rows(), ::testing::ElementsAreArray(expected));
}

TEST(Error, KnowsThatAPeersNumberMayBeUnknown) {
  EXPECT_FALSE(is_known(static_cast<ErrorCode>(65000)));
  EXPECT_EQ(error_name(static_cast<ErrorCode>(65000)), "Unknown");
  EXPECT_TRUE(is_known(ErrorCode::kOutOfBounds));
}

TEST(Error, TranslatesErrnoAndKeepsItAsDetail) {
  EXPECT_EQ(Error::from_errno("mmap", ENOMEM), ErrorCode::kOutOfMemory);
  EXPECT_EQ(Error::from_errno("open", EMFILE), ErrorCode::kResourceExhausted);
  EXPECT_EQ(Error::from_errno("open", EXDEV), ErrorCode::kOsError);
  EXPECT_EQ(Error::from_errno("open", EXDEV).detail(), EXDEV);
}

TEST(Error, SaysWhatWasAttemptedAndWhy) {
  const std::string text = Error(ErrorCode::kOutOfBounds, "read", 4096).to_string();
  EXPECT_NE(text.find("read: "), std::string::npos);
  EXPECT_NE(text.find("OutOfBounds"), std::string::npos);
  EXPECT_NE(text.find("4096"), std::string::npos);
}

Result<int> half(int n) {
  if (n % 2 != 0) return fail(ErrorCode::kInvalidArgument, "half", n);
  return n / 2;
}

Result<int> quarter(int n) {
  YONDER_TRY(once, half(n));
  YONDER_TRY(twice, half(once));
  return twice;
}

TEST(Result, TryPassesTheFirstErrorOn) {
  EXPECT_EQ(quarter(8).value(), 2);
  EXPECT_EQ(quarter(6).error().detail(), 3);
}

}  // namespace
}  // namespace yonder
