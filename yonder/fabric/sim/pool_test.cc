#include "yonder/fabric/sim/internal/pool.h"

#include <gtest/gtest.h>

#include <vector>

namespace yonder::fabric::sim {
namespace {

struct Thing {
  Ref ref;
  int value = 0;
};

TEST(Pool, AReleasedObjectIsNotFoundByItsOldName) {
  Pool<Thing> pool;
  Thing& first = pool.acquire();
  const Ref old = first.ref;
  EXPECT_EQ(pool.find(old), &first);
  pool.release(first);
  EXPECT_EQ(pool.find(old), nullptr);
  Thing& second = pool.acquire();
  EXPECT_EQ(second.ref.slot, old.slot);
  EXPECT_NE(second.ref, old);
  EXPECT_EQ(pool.find(old), nullptr);
  EXPECT_EQ(pool.find(Ref{}), nullptr);
}

TEST(Pool, ObjectsStayWhereTheyAreWhileItGrows) {
  Pool<Thing> pool;
  std::vector<Thing*> things;
  for (int i = 0; i < 1000; ++i) {
    things.push_back(&pool.acquire());
    things.back()->value = i;
  }
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(pool.find(things[static_cast<std::size_t>(i)]->ref)->value, i);
  EXPECT_EQ(pool.live(), 1000u);
  pool.release(*things[3]);
  int seen = 0;
  pool.for_each_live([&](const Thing& thing) {
    EXPECT_NE(thing.value, 3);
    ++seen;
  });
  EXPECT_EQ(seen, 999);
}

TEST(Table, ForgetsWhatLeft) {
  Table<Thing> table;
  Thing a;
  Thing b;
  const Ref ref_a = table.add(a);
  const Ref ref_b = table.add(b);
  table.remove(ref_a);
  EXPECT_EQ(table.find(ref_a), nullptr);
  EXPECT_EQ(table.find(ref_b), &b);
  const Ref again = table.add(a);
  EXPECT_NE(again, ref_a);
  EXPECT_EQ(table.find(again), &a);
  EXPECT_EQ(table.live(), 2u);
}

}  // namespace
}  // namespace yonder::fabric::sim
