#include "yonder/sync/hazard.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "yonder/sync/hazard_retire.h"

namespace yonder::sync {
namespace {

using Domain = HazardDomain<>;

TEST(Hazard, ShowsWhatAGuardProtectsAndNothingAfterwards) {
  Domain domain(2);
  auto thread = domain.register_thread().value();
  {
    const auto guard = thread.publish(42);
    EXPECT_TRUE(guard);
    EXPECT_TRUE(domain.protects(42));
    EXPECT_FALSE(domain.protects(43));
  }
  EXPECT_FALSE(domain.protects(42));
}

TEST(Hazard, GuardsNestAndEndInAnyOrder) {
  Domain domain(1);
  auto thread = domain.register_thread().value();
  auto a = thread.publish(1);
  auto b = thread.publish(2);
  auto c = thread.publish(2);
  a.reset();
  EXPECT_FALSE(domain.protects(1));
  b.reset();
  EXPECT_TRUE(domain.protects(2)) << "the second guard of the same value still holds it";
  a = thread.publish(3);
  c = std::move(a);
  EXPECT_FALSE(domain.protects(2));
  EXPECT_TRUE(domain.protects(3));
}

TEST(Hazard, RunsOutOfSlotsWithAnEmptyGuard) {
  Domain domain(1);
  auto thread = domain.register_thread().value();
  std::vector<decltype(thread.publish(1))> guards;
  for (std::size_t i = 0; i < Domain::kSlotsPerThread; ++i) guards.push_back(thread.publish(i + 1));
  EXPECT_FALSE(thread.publish(99));
  EXPECT_FALSE(domain.protects(99));
  guards.clear();
  EXPECT_TRUE(thread.publish(99));
}

TEST(Hazard, ThreadsComeAndGoWithinTheBound) {
  Domain domain(2);
  std::optional first = domain.register_thread().value();
  const auto second = domain.register_thread().value();
  EXPECT_EQ(domain.register_thread().error(), ErrorCode::kResourceExhausted);
  first.reset();
  EXPECT_TRUE(domain.register_thread().has_value());
}

TEST(Hazard, ProtectsWhatASourcePointsTo) {
  Domain domain(1);
  auto thread = domain.register_thread().value();
  int object = 5;
  std::atomic<int*> source{nullptr};
  EXPECT_FALSE(thread.try_protect(source));
  source = &object;
  const auto held = thread.try_protect(source);
  EXPECT_EQ(held.pointer, &object);
  EXPECT_TRUE(domain.protects(hazard_value(&object)));
}

TEST(Hazard, OneBarrierPerBatch) {
  int barriers = 0;
  Domain domain(1, [&] { ++barriers; });
  EXPECT_TRUE(domain.asymmetric());
  auto thread = domain.register_thread().value();
  const auto guard = thread.publish(7);
  HazardSnapshot<> in_use(domain);
  in_use.refresh(domain);
  EXPECT_EQ(barriers, 1);
  EXPECT_TRUE(in_use.contains(7));
  EXPECT_FALSE(in_use.contains(8));
  EXPECT_EQ(in_use.size(), 1u);
}

void record_free(void* context, HazardValue value) {
  static_cast<std::vector<HazardValue>*>(context)->push_back(value);
}

TEST(RetireList, FreesInBatchesAndKeepsWhatIsInUse) {
  int barriers = 0;
  Domain domain(1, [&] { ++barriers; });
  auto thread = domain.register_thread().value();
  std::vector<HazardValue> freed;
  {
    RetireList<> list(domain, 4, record_free, &freed);
    auto guard = thread.publish(3);
    for (HazardValue value = 1; value < list.capacity(); ++value) list.retire(value);
    EXPECT_TRUE(freed.empty());
    list.retire(100);
    EXPECT_EQ(barriers, 1);
    EXPECT_EQ(freed.size(), list.capacity() - 1);
    EXPECT_EQ(list.size(), 1u);
    EXPECT_EQ(list.reclaim(), 0u);
    guard.reset();
    EXPECT_EQ(list.reclaim(), 1u);
    EXPECT_EQ(freed.back(), 3u);
    list.retire(200);
  }
  EXPECT_EQ(freed.back(), 200u) << "the destructor frees what is left";
}

TEST(Hazard, LifetimesAreChecked) {
  EXPECT_DEATH(
      {
        std::optional<Domain> domain(std::in_place, 1);
        const auto thread = domain->register_thread().value();
        domain.reset();
      },
      "unregister before");
  EXPECT_DEATH(
      {
        Domain domain(1);
        std::optional thread = domain.register_thread().value();
        const auto guard = thread->publish(1);
        thread.reset();
      },
      "guards end before");
}

}  // namespace
}  // namespace yonder::sync
