// Numbers from a remote word.
#include "yonder/remote/sequencer.h"

#include <algorithm>
#include <vector>

#include "yonder/remote/suite/bed.h"

namespace yonder::remote::suite {
namespace {

Task<void> draw(Sequencer& sequencer, std::size_t count, std::vector<std::uint64_t>& out) {
  for (std::size_t i = 0; i < count; ++i) {
    const Result<std::uint64_t> number = co_await sequencer.async_next();
    if (number) out.push_back(*number);
  }
}

TEST_P(RemoteSuite, ASequencerCounts) {
  Sequencer sequencer(connect().port(), at(0));
  for (std::uint64_t i = 0; i < 10; ++i) EXPECT_EQ(sequencer.next().value(), i);
}

TEST_P(RemoteSuite, NumbersOfSeveralSequencersAreUniqueAndGrow) {
  std::vector<std::uint64_t> all;
  Client& one = connect();
  Client& two = connect();
  Sequencer batched(one.port(), at(64), {.batch = 7});
  Sequencer single(two.port(), at(64));
  std::vector<std::uint64_t> of_batched;
  std::vector<std::uint64_t> of_single;
  for (int i = 0; i < 20; ++i) {
    of_batched.push_back(batched.next().value());
    of_single.push_back(single.next().value());
  }
  EXPECT_TRUE(std::is_sorted(of_batched.begin(), of_batched.end()));
  EXPECT_TRUE(std::is_sorted(of_single.begin(), of_single.end()));
  all = of_batched;
  all.insert(all.end(), of_single.begin(), of_single.end());
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
  EXPECT_EQ(batched.in_hand(), 1U);  // 20 of three ranges of 7.
}

TEST_P(RemoteSuite, CoroutinesShareOneRange) {
  Client& client = connect();
  Sequencer sequencer(client.port(), at(0), {.batch = 8});
  std::vector<std::uint64_t> numbers;
  for (int i = 0; i < 4; ++i) client.scheduler().spawn(draw(sequencer, 10, numbers));
  ASSERT_TRUE(client.scheduler().run(client.port().deadline({})));
  std::sort(numbers.begin(), numbers.end());
  // No range was thrown away: 40 numbers are five whole ranges.
  ASSERT_EQ(numbers.size(), 40U);
  for (std::uint64_t i = 0; i < 40; ++i) EXPECT_EQ(numbers[i], i);
}

TEST_P(RemoteSuite, AReservedRangeIsNobodyElses) {
  Sequencer sequencer(connect().port(), at(0));
  EXPECT_EQ(sequencer.reserve(10).value(), 0U);
  EXPECT_EQ(sequencer.next().value(), 10U);
  EXPECT_EQ(sequencer.reserve(0).error(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace yonder::remote::suite
