#include "yonder/os/fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>

namespace yonder::os {
namespace {

bool is_open(int raw) { return ::fcntl(raw, F_GETFD) >= 0; }

TEST(Fd, ClosesOnceWhenItsOwnerGoes) {
  int raw = -1;
  {
    Fd fd = Fd::open("/dev/null", O_RDONLY).value();
    raw = fd.get();
    Fd moved = std::move(fd);
    EXPECT_FALSE(fd.valid());  // NOLINT(bugprone-use-after-move): that is what is tested.
    EXPECT_TRUE(is_open(raw));
  }
  EXPECT_FALSE(is_open(raw));
}

TEST(Fd, ReleaseLeavesTheDescriptorOpen) {
  Fd fd = Fd::open("/dev/null", O_RDONLY).value();
  const int raw = fd.release();
  fd.reset();
  EXPECT_TRUE(is_open(raw));
  ::close(raw);
}

TEST(Fd, MakersSetCloseOnExec) {
  const Fd fd = Fd::open("/dev/null", O_RDWR).value();
  const Fd copy = fd.duplicate().value();
  const Fd reader = fd.reopen_read_only().value();
  for (const Fd* each : {&fd, &copy, &reader})
    EXPECT_EQ(::fcntl(each->get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

TEST(Fd, ReopenedForReadingCannotWrite) {
  const Fd fd = Fd::open("/dev/null", O_RDWR).value();
  const Fd reader = fd.reopen_read_only().value();
  EXPECT_EQ(::write(fd.get(), "x", 1), 1);
  EXPECT_EQ(::write(reader.get(), "x", 1), -1);
  EXPECT_EQ(errno, EBADF);
}

TEST(Fd, SwitchesNonBlockingOnAndOff) {
  const Fd fd = Fd::open("/dev/null", O_RDWR).value();
  ASSERT_TRUE(fd.set_nonblocking(true));
  EXPECT_NE(::fcntl(fd.get(), F_GETFL) & O_NONBLOCK, 0);
  ASSERT_TRUE(fd.set_nonblocking(false));
  EXPECT_EQ(::fcntl(fd.get(), F_GETFL) & O_NONBLOCK, 0);
}

TEST(Fd, ReportsWhyAnOpenFailed) {
  EXPECT_EQ(Fd::open("/nonexistent/file", O_RDONLY).error(), ErrorCode::kNotFound);
  EXPECT_EQ(Fd(-1).duplicate().error().detail(), EBADF);
  EXPECT_FALSE(Fd(-1).set_nonblocking(true).has_value());
}

}  // namespace
}  // namespace yonder::os
