#include <gtest/gtest.h>

#include <string_view>

#include "yonder/fabric/verbs/internal/library.h"

namespace yonder::fabric::verbs {
namespace {

TEST(Library, AbsenceNamesTheMissingPackage) {
  const auto no_ibverbs = load_library({.ibverbs = "libibverbs-is-not-here.so"});
  ASSERT_FALSE(no_ibverbs);
  EXPECT_EQ(no_ibverbs.error(), ErrorCode::kProviderUnavailable);
  EXPECT_NE(std::string_view(no_ibverbs.error().message()).find("libibverbs1"), std::string_view::npos);
}

TEST(Library, AForeignLibraryIsNotTakenForIt) {
  const auto foreign = load_library({.ibverbs = "libc.so.6"});
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error(), ErrorCode::kProviderUnavailable);
}

}  // namespace
}  // namespace yonder::fabric::verbs
