#include "yonder/os/core_hop.h"

#include <gtest/gtest.h>

namespace yonder::os {
namespace {

TEST(CoreHop, GoesToAnotherCoreThatIsAllowedAndGivesBackWhatWas) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  if (CPU_COUNT(&before) < 2) GTEST_SKIP() << "one core";
  {
    CoreHop core;
    for (int i = 0; i < 8; ++i) {
      // Only here: else the scheduler might move us in between.
      const int here = ::sched_getcpu();
      core.hop();
      const int there = ::sched_getcpu();
      EXPECT_TRUE(CPU_ISSET(static_cast<unsigned>(there), &before));
      if (i > 0) {
        EXPECT_NE(there, here);
      }
    }
  }
  cpu_set_t after;
  ASSERT_EQ(::sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST(CoreHop, StaysWhereItIsIfThereIsNoOtherCore) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<unsigned>(::sched_getcpu()), &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  {
    CoreHop core;
    core.hop();
    EXPECT_TRUE(CPU_ISSET(static_cast<unsigned>(::sched_getcpu()), &one));
  }
  cpu_set_t after;
  ASSERT_EQ(::sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&one, &after));
  ASSERT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
}

}  // namespace
}  // namespace yonder::os
