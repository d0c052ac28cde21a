#include "yonder/fabric/task.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "yonder/fabric/frame_pool.h"

namespace yonder::fabric {
namespace {

Task<int> answer() { co_return 42; }

Task<int> twice() {
  const int first = co_await answer();
  const int second = co_await answer();
  co_return first + second;
}

TEST(Task, RunsOnlyWhenStartedAndReturnsItsValue) {
  bool ran = false;
  auto task = [](bool& flag) -> Task<> {
    flag = true;
    co_return;
  }(ran);
  EXPECT_FALSE(ran);
  task.start();
  EXPECT_TRUE(ran);
  EXPECT_TRUE(task.done());
}

TEST(Task, AwaitsOtherTasks) {
  Task<int> task = twice();
  task.start();
  ASSERT_TRUE(task.done());
  EXPECT_EQ(task.take(), 84);
}

Task<int> deep(int depth) {
  if (depth == 0) co_return 0;
  co_return 1 + co_await deep(depth - 1);
}

TEST(Task, PassesMoveOnlyValues) {
  auto make = []() -> Task<std::unique_ptr<int>> { co_return std::make_unique<int>(7); };
  auto task = make();
  task.start();
  EXPECT_EQ(*task.take(), 7);
}

TEST(Task, DestroysWhatItHeldWhenItNeverFinished) {
  auto held = std::make_shared<int>(1);
  {
    auto task = [](std::shared_ptr<int> copy) -> Task<> {
      co_await std::suspend_always{};
      (void)copy;
    }(held);
    task.start();
    EXPECT_EQ(held.use_count(), 2);
  }
  EXPECT_EQ(held.use_count(), 1);
}

TEST(Task, NestsDeeply) {
  Task<int> task = deep(500);
  task.start();
  EXPECT_EQ(task.take(), 500);
}

TEST(FramePool, GivesAReleasedFrameOutAgain) {
  void* first = FramePool::allocate(100);
  FramePool::release(first, 100);
  void* second = FramePool::allocate(128);  // The same class: 65 to 128 bytes.
  EXPECT_EQ(first, second);
  FramePool::release(second, 128);
}

TEST(FramePool, TakesFramesOfAnySize) {
  for (const std::size_t bytes : {1, 64, 65, 2048, 2049, 100000}) {
    void* frame = FramePool::allocate(bytes);
    ASSERT_NE(frame, nullptr);
    FramePool::release(frame, bytes);
  }
}

}  // namespace
}  // namespace yonder::fabric
