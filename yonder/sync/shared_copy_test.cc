#include "yonder/sync/shared_copy.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <thread>

namespace yonder::sync {
namespace {

TEST(SharedCopy, CopiesEveryAlignmentAndLength) {
  std::array<std::byte, 64> from{};
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i + 1);
  for (std::size_t source = 0; source < 9; ++source) {
    for (std::size_t target = 0; target < 9; ++target) {
      for (std::size_t bytes = 0; bytes <= 40; ++bytes) {
        std::array<std::byte, 64> loaded{};
        std::array<std::byte, 64> stored{};
        load_words(loaded.data() + target, from.data() + source, bytes);
        store_words(stored.data() + target, from.data() + source, bytes);
        ASSERT_EQ(std::memcmp(loaded.data() + target, from.data() + source, bytes), 0);
        ASSERT_EQ(std::memcmp(stored.data() + target, from.data() + source, bytes), 0);
        ASSERT_EQ(loaded[target + bytes], std::byte{0}) << "nothing behind the end";
        ASSERT_EQ(stored[target + bytes], std::byte{0}) << "nothing behind the end";
      }
    }
  }
}

TEST(SharedCopy, CountsAndSwapsWords) {
  alignas(8) std::array<std::byte, 8> word{};
  EXPECT_EQ(shared_fetch_add(word.data(), 5), 0u);
  EXPECT_EQ(shared_fetch_add(word.data(), 1), 5u);
  EXPECT_EQ(shared_compare_swap(word.data(), 5, 9), 6u) << "is not swapped";
  EXPECT_EQ(shared_compare_swap(word.data(), 6, 9), 6u);
  EXPECT_EQ(shared_fetch_add(word.data(), 0), 9u);
}

TEST(SharedCopy, ZeroesExactlyItsRange) {
  std::array<std::byte, 32> memory{};
  memory.fill(std::byte{7});
  shared_zero(memory.data() + 3, 11);
  for (std::size_t i = 0; i < memory.size(); ++i) {
    EXPECT_EQ(memory[i], i >= 3 && i < 14 ? std::byte{0} : std::byte{7}) << i;
  }
}

// Words are written whole by one thread and loaded at odd alignments by another:
// every loaded word must be one that was written.
TEST(SharedCopy, NeverTearsAnAlignedWord) {
  alignas(8) std::array<std::byte, 24> shared{};
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (std::uint64_t n = 0; !stop.load(std::memory_order_relaxed); ++n) {
      std::array<std::uint64_t, 3> words;
      words.fill(n % 2 == 0 ? 0 : ~std::uint64_t{0});
      store_words(shared.data(), reinterpret_cast<const std::byte*>(words.data()), sizeof words);
    }
  });
  std::array<std::byte, 32> copy{};
  for (int i = 0; i < 20000; ++i) {
    load_words(copy.data() + 1, shared.data() + 5, 19);  // Words 1 and 2 lie whole inside.
    for (const std::size_t at : {4u, 12u}) {
      std::uint64_t word = 0;
      std::memcpy(&word, copy.data() + at, 8);
      EXPECT_TRUE(word == 0 || word == ~std::uint64_t{0});
    }
  }
  stop.store(true, std::memory_order_relaxed);
  writer.join();
}

}  // namespace
}  // namespace yonder::sync
