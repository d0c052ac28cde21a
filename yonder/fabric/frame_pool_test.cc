#include "yonder/fabric/frame_pool.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace yonder::fabric {
namespace {

constexpr std::size_t kBytes = 200;

void use_frames() {
  std::array<void*, 8> frames{};
  for (void*& frame : frames) {
    frame = FramePool::allocate(kBytes);
    std::memset(frame, 0xee, kBytes);
  }
  for (void* frame : frames) FramePool::release(frame, kBytes);
}

TEST(FramePool, GivesFramesOutAgain) {
  void* const frame = FramePool::allocate(kBytes);
  FramePool::release(frame, kBytes);
  EXPECT_EQ(FramePool::allocate(kBytes - 1), frame);
  FramePool::release(frame, kBytes);
}

TEST(FramePool, TakesFramesOfOtherThreads) {
  void* frame = nullptr;
  std::thread([&] { frame = FramePool::allocate(kBytes); }).join();
  FramePool::release(frame, kBytes);
  EXPECT_EQ(FramePool::allocate(kBytes), frame);
  FramePool::release(frame, kBytes);
}

// Static objects are destroyed after the thread's own, and may still run coroutines: what the
// thread kept must be neither used nor freed again. (A program under `yonder run` gives its far
// memory back that late.)
TEST(FramePoolDeathTest, WorksAfterTheDestructorsOfItsThread) {
  EXPECT_EXIT(
      {
        std::atexit([] {
          use_frames();
          // What an allocator does with freed memory shows in what it gives next.
          void* const first = FramePool::allocate(kBytes);
          void* const second = FramePool::allocate(kBytes);
          if (first == second) std::_Exit(3);
          FramePool::release(first, kBytes);
          FramePool::release(second, kBytes);
        });
        use_frames();
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace yonder::fabric
