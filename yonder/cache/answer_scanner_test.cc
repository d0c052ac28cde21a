#include "yonder/cache/answer_scanner.h"

#include <gtest/gtest.h>

#include <string>

namespace yonder::cache {
namespace {

TEST(AnswerScanner, FindsTheEndOfEveryKindOfAnswer) {
  for (const std::string answer : {"", "STORED\r\n", "VALUE k 0 4\r\nMN\r\n\r\nEND\r\n",
                                   "VA 4 c7\r\nMN\r\n\r\n", "HD\r\n", "VALUE k 0 0 5\r\n\r\nEND\r\n"}) {
    AnswerScanner scanner;
    const auto end = scanner.scan(answer + "MN\r\nnext");
    ASSERT_TRUE(end && end->has_value()) << answer;
    EXPECT_EQ(**end, answer.size());
  }
}

TEST(AnswerScanner, GoesOnWhereItWasHoweverTheBytesCome) {
  const std::string answer = "VALUE k 0 10\r\n0123MN\r\n89\r\nVALUE l 0 1\r\nx\r\nEND\r\n";
  const std::string all = answer + "MN\r\n";
  AnswerScanner scanner;
  for (std::size_t bytes = 0; bytes < all.size(); ++bytes) {
    const auto end = scanner.scan(all.substr(0, bytes));
    ASSERT_TRUE(end);
    ASSERT_FALSE(end->has_value()) << bytes;
  }
  EXPECT_EQ(**scanner.scan(all), answer.size());
  scanner.reset();
  EXPECT_EQ(**scanner.scan("MN\r\n"), 0u);
}

TEST(AnswerScanner, RefusesWhatIsNoAnswer) {
  AnswerScanner scanner;
  EXPECT_EQ(scanner.scan("VALUE k 0 x\r\n").error(), ErrorCode::kMalformedFrame);
  AnswerScanner endless;
  EXPECT_EQ(endless.scan(std::string(10000, 'a')).error(), ErrorCode::kMalformedFrame);
}

}  // namespace
}  // namespace yonder::cache
