// The real SeqLock under the seeded scheduler with modelled store buffers.
#include <gtest/gtest.h>

#include "yonder/sync/seqlock.h"
#include "yonder/testing/deterministic_scheduler.h"
#include "yonder/testing/seed.h"
#include "yonder/testing/weak_atomics.h"

namespace yonder::sync {
namespace {

using testing::DeterministicScheduler;
using testing::SimAtomics;
using testing::WeakAtomics;

struct Triple {
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  std::uint64_t c = 0;
};

TEST(SeqLockModel, MissingReleasesAreFound) {
  int torn = 0;
  for (std::uint64_t i = 0; i < 300; ++i) {
    SeqLock<Triple, WeakAtomics> lock;
    DeterministicScheduler(testing::test_seed() + i)
        .run({[&] {
                for (std::uint64_t n = 1; n <= 5; ++n) lock.write({.a = n, .b = n, .c = n});
              },
              [&] {
                for (int tries = 0; tries < 12; ++tries) {
                  const std::optional<Triple> value = lock.try_read();
                  torn += value && (value->a != value->b || value->b != value->c) ? 1 : 0;
                }
              }});
  }
  EXPECT_GT(torn, 0);
}

TEST(SeqLockModel, AReadIsOfOneWriteAndNeverGoesBack) {
  int read = 0;
  int refused = 0;
  for (std::uint64_t i = 0; i < 500; ++i) {
    SeqLock<Triple, SimAtomics> lock;
    auto reader = [&] {
      std::uint64_t newest = 0;
      for (int tries = 0; tries < 12; ++tries) {
        const std::optional<Triple> value = lock.try_read();
        ++(value ? read : refused);
        if (!value) continue;
        ASSERT_TRUE(value->a == value->b && value->b == value->c) << "seed " << testing::test_seed() + i;
        ASSERT_GE(value->a, newest);
        newest = value->a;
      }
    };
    DeterministicScheduler(testing::test_seed() + i)
        .run({[&] {
                for (std::uint64_t n = 1; n <= 5; ++n) lock.write({.a = n, .b = n, .c = n});
              },
              reader, reader});
    EXPECT_EQ(lock.try_read()->c, 5u);
    EXPECT_EQ(lock.version(), 5u);
  }
  // Both must have happened, or the schedules were too tame to prove anything.
  EXPECT_GT(read, 100);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace yonder::sync
