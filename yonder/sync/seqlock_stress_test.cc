#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

#include "yonder/sync/seqlock.h"

namespace yonder::sync {
namespace {

using Block = std::array<std::uint64_t, 16>;

TEST(SeqLockStress, ReadersSeeWholeValuesInOrder) {
  SeqLock<Block> lock(Block{});
  std::atomic<bool> stop{false};
  auto reader = [&] {
    std::uint64_t newest = 0;
    std::uint64_t reads = 0;
    while (!stop.load(std::memory_order_relaxed) || reads == 0) {
      const std::optional<Block> block = lock.try_read(1000);
      if (!block) continue;
      ++reads;
      for (const std::uint64_t word : *block) ASSERT_EQ(word, block->front());
      ASSERT_GE(block->front(), newest);
      newest = block->front();
    }
  };
  std::thread first(reader);
  std::thread second(reader);
  for (std::uint64_t n = 1; n <= 200'000; ++n) {
    Block block;
    block.fill(n);
    lock.write(block);
  }
  stop = true;
  first.join();
  second.join();
}

}  // namespace
}  // namespace yonder::sync
