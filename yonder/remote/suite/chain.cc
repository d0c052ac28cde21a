// Chains, on every provider.
#include "yonder/remote/chain.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "yonder/remote/suite/bed.h"
#include "yonder/testing/patience.h"

namespace yonder::remote::suite {
namespace {

std::uint64_t word_in(std::span<const std::byte> memory, std::size_t offset) {
  std::uint64_t word = 0;
  std::memcpy(&word, memory.data() + offset, sizeof word);
  return word;
}

TEST_P(RemoteSuite, AChainTakesEffectInOrderInOneTrip) {
  Client& client = connect();
  std::array<std::byte, 100> data;
  data.fill(std::byte{9});
  std::array<std::byte, 100> seen = {};
  Chain chain(client.port());
  chain.write(LocalPiece::of(data), at(4096));
  chain.read(LocalPiece::of(seen), at(4096));
  chain.write(LocalPiece{}, at(0));  // Nothing: adds nothing.
  chain.compare_swap(at(64), 0, 5);
  chain.fetch_add(at(64), 10);
  ASSERT_EQ(chain.size(), 4u);
  ASSERT_TRUE(client.port().run(chain.run()));
  EXPECT_EQ(seen, data);
  EXPECT_EQ(chain.value(2), 0u);
  EXPECT_EQ(chain.value(3), 5u);
  EXPECT_EQ(word_in(memory(), 64), 15u);
}

TEST_P(RemoteSuite, ALinkThatFailsDoesNotStopTheOthersAndIsNamed) {
  Client& client = connect();
  std::array<std::byte, 8> data = {std::byte{1}};
  Chain chain(client.port());
  chain.fetch_add(at(64), 1);
  chain.write(LocalPiece::of(data), at(kRegionBytes - 4));
  chain.fetch_add(at(72), 1);
  const auto done = client.port().run(chain.run());
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().detail(), 1u);
  EXPECT_EQ(chain.status(0), ErrorCode::kOk);
  EXPECT_EQ(chain.status(1), done.error().code());
}

TEST_P(RemoteSuite, AnEmptyChainHasEnded) {
  Chain chain(connect().port());
  EXPECT_TRUE(connect().port().run(chain.run()));
}

TEST_P(RemoteSuite, ChainsWaitForAPlace) {
  Client& client = connect({.depth = 3});
  int ended = 0;
  const auto add = [&]() -> Task<void> {
    Chain chain(client.port());
    for (int i = 0; i < 5; ++i) chain.fetch_add(at(128), 1);
    const auto done = co_await chain.run();
    EXPECT_TRUE(done) << done.error();
    ++ended;
  };
  for (int i = 0; i < 10; ++i) client.scheduler().spawn(add());
  ASSERT_TRUE(client.scheduler().run(Deadline::after(client.port().clock(), ::yonder::testing::kPatience)));
  EXPECT_EQ(ended, 10);
  EXPECT_EQ(word_in(memory(), 128), 50u);
}

}  // namespace
}  // namespace yonder::remote::suite
