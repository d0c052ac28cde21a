// Windows: looking at a peer's region without requests.
#include "yonder/fabric/window.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <thread>

#include "yonder/fabric/shm/test_support.h"

namespace yonder::fabric::shm {
namespace {

class WindowOf : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    pair_ = PassivePair::create(GetParam());
    std::memset(memory_.bytes().data(), 7, memory_.bytes().size());
    region_ = must(pair_.target->register_memory({.memory = memory_.bytes(), .backing = memory_.backing()}));
  }
  // A region is mapped by its first use.
  void use() {
    std::array<std::byte, 8> bytes{};
    ASSERT_TRUE(pair_.endpoint->read(LocalPiece::of(bytes), region_.token().at(0)).wait());
  }
  static int first_byte(const Window& window) {
    int value = -1;
    return window.look([&](const std::byte* base) { value = static_cast<int>(base[0]); }) ? value : -1;
  }

  SharedMemory memory_ = SharedMemory::create(4096);
  PassivePair pair_;
  Region region_;
};

TEST_P(WindowOf, ShowsTheRegionAfterItsFirstUse) {
  EXPECT_FALSE(pair_.endpoint->window(region_.token().key));
  use();
  const auto window = pair_.endpoint->window(region_.token().key);
  ASSERT_TRUE(window);
  EXPECT_EQ(window->length(), 4096u);
  EXPECT_EQ(first_byte(*window), 7);
  memory_.bytes()[0] = std::byte{8};
  EXPECT_EQ(first_byte(*window), 8) << "the memory itself, not a copy";
}

TEST_P(WindowOf, ShowsNothingAfterRevocation) {
  use();
  const Window window = pair_.endpoint->window(region_.token().key).value();
  region_.revoke();
  EXPECT_EQ(first_byte(window), -1);
}

TEST_P(WindowOf, OneWordCountsOnlyWhileTheRegionIsThere) {
  use();
  const Window window = pair_.endpoint->window(region_.token().key).value();
  std::uint64_t word = 0;
  memory_.bytes()[16] = std::byte{9};
  EXPECT_TRUE(window.load_word(16, word));
  EXPECT_EQ(word, 0x0707'0707'0707'0709u);
  region_.revoke();
  EXPECT_FALSE(window.load_word(16, word));
  pair_.endpoint->close();
  EXPECT_FALSE(window.load_word(16, word));
  EXPECT_FALSE(Window().load_word(0, word));
}

TEST_P(WindowOf, EndsWithItsConnection) {
  use();
  const Window window = pair_.endpoint->window(region_.token().key).value();
  pair_.endpoint->close();
  EXPECT_FALSE(window.is_mapped());
  EXPECT_EQ(first_byte(window), -1);
  EXPECT_FALSE(pair_.endpoint->window(region_.token().key));
}

TEST_P(WindowOf, RevocationWaitsForALookUnderWay) {
  use();
  const Window window = pair_.endpoint->window(region_.token().key).value();
  std::atomic<bool> revoked{false};
  std::thread owner;
  bool was_revoked_inside = true;
  const bool counts = window.look([&](const std::byte*) {
    owner = std::thread([&] {
      region_.revoke();
      revoked.store(true);
    });
    for (int i = 0; i < 20; ++i) std::this_thread::yield();
    was_revoked_inside = revoked.load();
  });
  owner.join();
  EXPECT_FALSE(was_revoked_inside);
  EXPECT_EQ(first_byte(window), -1);
  // The look may have begun and ended before the owner came: then it counts.
  (void)counts;
}

INSTANTIATE_TEST_SUITE_P(Shm, WindowOf, ::testing::Values("", "?inprocess=off"));

TEST(Window, IsNotGivenOnAModelledLinkNorWithoutTheRightToRead) {
  PassivePair slow = PassivePair::create("?latency_ns=1000");
  const SharedMemory memory = SharedMemory::create(4096);
  const Region region =
      must(slow.target->register_memory({.memory = memory.bytes(), .backing = memory.backing()}));
  std::array<std::byte, 8> bytes{};
  ASSERT_TRUE(slow.endpoint->read(LocalPiece::of(bytes), region.token().at(0)).wait());
  EXPECT_FALSE(slow.endpoint->window(region.token().key));

  PassivePair pair = PassivePair::create("");
  const SharedMemory other = SharedMemory::create(4096);
  const Region write_only = must(pair.target->register_memory(
      {.memory = other.bytes(), .rights = Rights::kWrite, .backing = other.backing()}));
  ASSERT_TRUE(pair.endpoint->write(LocalPiece::of(bytes), write_only.token().at(0)).wait());
  EXPECT_FALSE(pair.endpoint->window(write_only.token().key));
}

TEST(Window, MadeFromNothingShowsNothing) {
  EXPECT_FALSE(Window().look([](const std::byte*) { FAIL(); }));
}

}  // namespace
}  // namespace yonder::fabric::shm
