#include "yonder/sync/mutex.h"

#include <gtest/gtest.h>

#include <thread>

namespace yonder::sync {
namespace {

class Box {
 public:
  void put(int value) {
    const LockGuard lock(mutex_);
    value_ = value;
    filled_.notify_one();
  }
  // 0 if the deadline passed.
  int take(Deadline deadline) {
    LockGuard lock(mutex_);
    while (value_ == 0)
      if (!filled_.wait(lock, deadline)) return 0;
    return std::exchange(value_, 0);
  }

 private:
  Mutex mutex_;
  Condition filled_;
  int value_ YONDER_GUARDED_BY(mutex_) = 0;
};

TEST(Mutex, ExcludesOthers) {
  Mutex mutex;
  mutex.lock();
  bool taken = false;
  std::thread other([&] {
    if (!mutex.try_lock()) return;
    taken = true;
    mutex.unlock();
  });
  other.join();
  EXPECT_FALSE(taken);
  mutex.unlock();
}

TEST(Condition, WakesTheWaiterAndKeepsTheDeadline) {
  Box box;
  EXPECT_EQ(box.take(Deadline::at(Instant::from_ns(1))), 0);
  std::thread giver([&] { box.put(42); });
  EXPECT_EQ(box.take(Deadline::never()), 42);
  giver.join();
}

}  // namespace
}  // namespace yonder::sync
