#include "yonder/sync/seqlock.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace yonder::sync {
namespace {

struct Odd {  // 13 bytes: the last word is only partly used.
  std::array<std::uint8_t, 13> bytes{};
  friend bool operator==(const Odd&, const Odd&) = default;
};

TEST(SeqLock, ReadsWhatWasWritten) {
  SeqLock<std::uint64_t> lock(7);
  EXPECT_EQ(lock.try_read(), 7u);
  lock.write(8);
  EXPECT_EQ(lock.try_read(3), 8u);
  EXPECT_EQ(lock.version(), 1u);
}

TEST(SeqLock, CarriesValuesOfAnySize) {
  SeqLock<Odd> lock;
  EXPECT_EQ(lock.try_read(), Odd{});
  Odd value;
  for (std::size_t i = 0; i < value.bytes.size(); ++i) value.bytes[i] = static_cast<std::uint8_t>(i + 1);
  lock.write(value);
  EXPECT_EQ(lock.try_read(), value);
}

TEST(SeqLock, NoAttemptsReadNothing) {
  const SeqLock<int> lock(1);
  EXPECT_EQ(lock.try_read(0), std::nullopt);
}

}  // namespace
}  // namespace yonder::sync
