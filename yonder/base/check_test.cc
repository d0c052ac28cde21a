#include "yonder/base/check.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <thread>
#include <vector>

namespace yonder {
namespace {

TEST(Check, DoesNothingWhenTheConditionHolds) {
  int evaluations = 0;
  YONDER_CHECK(++evaluations == 1, "evaluated once");
  EXPECT_EQ(evaluations, 1);
}

TEST(CheckDeathTest, NamesTheMessageTheConditionAndThePlace) {
  const int slots = 3;
  EXPECT_DEATH(YONDER_CHECK(slots == 4, "all slots are there"),
               "check failed: all slots are there \\(slots == 4\\) at .*check_test.cc:[0-9]+");
}

TEST(CheckDeathTest, RunsTheHookBeforeTheAbort) {
  EXPECT_DEATH(
      {
        set_check_hook([] { std::fputs("state dumped\n", stderr); });
        YONDER_CHECK(false, "broken");
      },
      "broken(.|\n)*state dumped");
}

TEST(CheckDeathTest, SeveralFailingThreadsMakeOneReport) {
  EXPECT_EXIT(
      {
        set_check_hook([] { std::fputs("[dump]", stderr); });
        std::vector<std::jthread> threads;
        for (int i = 0; i < 4; ++i) threads.emplace_back([] { YONDER_CHECK(false, "broken"); });
        threads.clear();
      },
      ::testing::KilledBySignal(SIGABRT), "^yonder: check failed: broken[^\n]*\n\\[dump\\]$");
}

TEST(Check, HookSetterReturnsTheOldHook) {
  const CheckHook hook = [] {};
  const CheckHook before = set_check_hook(hook);
  EXPECT_EQ(set_check_hook(before), hook);
}

}  // namespace
}  // namespace yonder
