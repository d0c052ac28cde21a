#include <gtest/gtest.h>

#include "yonder/base/prng.h"
#include "yonder/fabric/verbs/internal/key.h"
#include "yonder/testing/seed.h"

namespace yonder::fabric::verbs {
namespace {

TEST(Key, DecodesWhatItEncoded) {
  Prng random(testing::test_seed());
  for (int i = 0; i < 1000; ++i) {
    const NicKey key{.rkey = static_cast<std::uint32_t>(random()),
                     .page_offset = static_cast<std::uint32_t>(random.below(4096)),
                     .salt = static_cast<std::uint32_t>(random.below(1 << 20))};
    EXPECT_EQ(decode_key(encode_key(key)), key);
  }
}

TEST(Key, EveryFlippedBitNamesAnotherRkey) {
  const NicKey key{.rkey = 0x1234, .page_offset = 0, .salt = 0xabcde};
  for (int bit = 0; bit < 64; ++bit) {
    const RegionKey forged{encode_key(key).value ^ (std::uint64_t{1} << bit)};
    EXPECT_NE(decode_key(forged).rkey, key.rkey) << "bit " << bit;
  }
}

}  // namespace
}  // namespace yonder::fabric::verbs
