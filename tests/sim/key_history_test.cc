// The checker itself: that it believes what can be, and nothing else.
#include "tests/sim/key_history.h"

#include <gtest/gtest.h>

namespace yonder {
namespace {

using enum KeyCall;
using enum KeyAnswer;

// Calls of one key, one after the other unless times say otherwise.
KeyEvent call(KeyCall call, KeyAnswer answer, std::int64_t begin, std::int64_t end, std::uint64_t version = 0,
              std::uint64_t value = 0) {
  return {
      .call = call, .answer = answer, .begin_ns = begin, .end_ns = end, .version = version, .value = value};
}

TEST(KeyHistory, BelievesWhatHappenedInOrder) {
  EXPECT_FALSE(find_unexplained({call(kFind, kNotFound, 0, 1), call(kInsert, kDone, 2, 3, 5, 100),
                                 call(kInsert, kAlreadyExists, 4, 5), call(kFind, kDone, 6, 7, 5, 100),
                                 call(kUpdate, kDone, 8, 9, 6, 101), call(kErase, kDone, 10, 11, 9),
                                 call(kErase, kNotFound, 12, 13), call(kUpdate, kNotFound, 14, 15),
                                 call(kPut, kDone, 16, 17, 12, 102), call(kFind, kDone, 18, 19, 12, 102)}));
}

TEST(KeyHistory, BelievesEitherOrderOfCallsThatOverlap) {
  const KeyEvent put = call(kPut, kDone, 0, 10, 1, 100);
  EXPECT_FALSE(find_unexplained({put, call(kFind, kNotFound, 5, 6)}));
  EXPECT_FALSE(find_unexplained({put, call(kFind, kDone, 5, 6, 1, 100)}));
  EXPECT_TRUE(find_unexplained({put, call(kFind, kDone, 5, 6, 1, 100), call(kFind, kNotFound, 7, 8)}));
  EXPECT_TRUE(find_unexplained({put, call(kFind, kNotFound, 11, 12)}));
}

TEST(KeyHistory, NoticesTwoInsertsThatBothWon) {
  EXPECT_TRUE(find_unexplained({call(kInsert, kDone, 0, 10, 1, 100), call(kInsert, kDone, 0, 10, 2, 101)}));
  EXPECT_FALSE(find_unexplained({call(kInsert, kDone, 0, 10, 1, 100), call(kErase, kDone, 0, 10, 2),
                                 call(kInsert, kDone, 0, 10, 3, 101)}));
}

TEST(KeyHistory, NoticesAnErasedEntryThatComesBack) {
  EXPECT_TRUE(find_unexplained(
      {call(kPut, kDone, 0, 1, 1, 100), call(kErase, kDone, 2, 3, 2), call(kFind, kDone, 4, 5, 1, 100)}));
}

TEST(KeyHistory, NoticesVersionsThatGoBackAndValuesOfOthers) {
  EXPECT_TRUE(find_unexplained({call(kPut, kDone, 0, 1, 2, 100), call(kPut, kDone, 2, 3, 1, 101)}));
  EXPECT_TRUE(find_unexplained({call(kPut, kDone, 0, 1, 1, 100), call(kFind, kDone, 2, 3, 1, 101)}));
  EXPECT_TRUE(find_unexplained({call(kPut, kDone, 0, 1, 1, 100), call(kFind, kDone, 2, 3, 2, 100)}));
}

TEST(KeyHistory, AnUnknownAnswerMayHaveHadAnEffectLaterOrNever) {
  const KeyEvent put = call(kPut, kDone, 0, 1, 1, 100);
  const KeyEvent erase = call(kErase, kUnknown, 2, 3);
  EXPECT_FALSE(find_unexplained({put, erase, call(kFind, kNotFound, 9, 10)}));
  EXPECT_FALSE(find_unexplained({put, erase, call(kFind, kDone, 9, 10, 1, 100)}));
  EXPECT_FALSE(
      find_unexplained({put, erase, call(kFind, kDone, 5, 6, 1, 100), call(kFind, kNotFound, 9, 10)}));
  EXPECT_TRUE(
      find_unexplained({put, erase, call(kFind, kNotFound, 5, 6), call(kFind, kDone, 9, 10, 1, 100)}));
  EXPECT_TRUE(find_unexplained({put, call(kErase, kUnknown, 7, 8), call(kFind, kNotFound, 5, 6)}));
  const KeyEvent unknown_put = call(kPut, kUnknown, 2, 3, 0, 101);
  EXPECT_FALSE(find_unexplained({put, unknown_put, call(kFind, kDone, 9, 10, 4, 101)}));
  EXPECT_TRUE(find_unexplained(
      {put, unknown_put, call(kFind, kDone, 5, 6, 4, 101), call(kFind, kDone, 9, 10, 1, 100)}));
}

}  // namespace
}  // namespace yonder
