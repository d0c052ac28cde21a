#include "yonder/os/file_lock.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>

#include "yonder/os/memfd.h"
#include "yonder/os/process.h"
#include "yonder/os/steady_clock.h"

namespace yonder::os {
namespace {

TEST(FileLock, HasOneHolderAtATime) {
  const Memfd file = Memfd::create({.size = 4096}).value();
  std::optional<FileLock> first(FileLock::try_take(file.fd()).value());
  EXPECT_EQ(FileLock::try_take(file.fd()).error(), ErrorCode::kAlreadyExists);
  first.reset();
  EXPECT_TRUE(FileLock::try_take(file.fd()));
}

TEST(FileLock, EndsWithItsProcessHoweverThatEnds) {
  const SteadyClock clock;
  const Memfd file = Memfd::create({.size = 4096}).value();
  const Memfd taken = Memfd::create({.size = 4096}).value();
  Child holder = Child::fork([&] {
                   const auto lock = FileLock::try_take(file.fd());
                   if (!lock) return 1;
                   // Says so by a size that the parent sees.
                   if (::ftruncate(taken.fd().get(), 8192) != 0) return 2;
                   for (;;) ::pause();
                 }).value();
  const Deadline deadline = Deadline::after(clock, std::chrono::seconds(30));
  while (::lseek(taken.fd().get(), 0, SEEK_END) != 8192 && !deadline.passed(clock.now())) ::usleep(1000);
  EXPECT_EQ(FileLock::try_take(file.fd()).error(), ErrorCode::kAlreadyExists);
  ASSERT_TRUE(holder.kill(SIGKILL));
  ASSERT_TRUE(holder.wait(deadline));
  EXPECT_TRUE(FileLock::try_take(file.fd()));
}

}  // namespace
}  // namespace yonder::os
