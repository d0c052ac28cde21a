// The examples against a daemon, as their first lines say.
#include <gtest/gtest.h>

#include "tests/e2e/daemon.h"

namespace yonder::e2e {
namespace {

TEST(Examples, RunAgainstADaemon) {
  Program daemon = start_daemon({.program = YONDERD, .flags = {"--extents", "64MiB"}});
  ASSERT_TRUE(daemon.ready());
  for (const char* provider : {"shm", "tcp"}) {
    for (const char* example : {EXAMPLE_LOG, EXAMPLE_HASHTABLE}) {
      auto child = os::Child::spawn({.argv = {example, daemon.address(provider)}});
      ASSERT_TRUE(child) << child.error();
      EXPECT_TRUE(child->wait(soon()).value().success()) << example << " over " << provider;
    }
  }
}

TEST(Examples, SayWhatIsWrongWhenThereIsNoNode) {
  auto child = os::Child::spawn({.argv = {EXAMPLE_LOG, free_shm_address()}});
  ASSERT_TRUE(child) << child.error();
  const os::ExitStatus status = child->wait(soon()).value();
  EXPECT_FALSE(status.signalled);
  EXPECT_EQ(status.value, 1);
}

}  // namespace
}  // namespace yonder::e2e
