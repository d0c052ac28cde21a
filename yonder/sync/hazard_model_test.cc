// The real hazard slots under the seeded scheduler with modelled store buffers:
// nothing is reclaimed while it is used, in both modes; and without the barrier,
// or without the reader's fence in fallback mode, the same test finds the error.
#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "yonder/sync/hazard.h"
#include "yonder/sync/hazard_retire.h"
#include "yonder/testing/deterministic_scheduler.h"
#include "yonder/testing/seed.h"

namespace yonder::sync {
namespace {

using testing::DeterministicScheduler;
using testing::SimAtomic;
using testing::SimAtomics;
using testing::test_seed;

// `freed` is plain: only one thread runs at a time, and it must not be delayed.
struct Object {
  bool freed = false;
};

// Fallback mode whose fences do nothing.
struct UnfencedAtomics : SimAtomics {
  static void full_fence() { DeterministicScheduler::step(); }
};

template <typename Atomics>
struct World {
  explicit World(std::move_only_function<void()> barrier) : domain(3, std::move(barrier)) {}
  HazardDomain<Atomics> domain;
  std::array<Object, 6> objects;
  SimAtomic<Object*> source{&objects[0]};
  int uses = 0;
  int uses_after_free = 0;
};

template <typename Atomics>
void read_often(World<Atomics>& world) {
  auto thread = world.domain.register_thread().value();
  for (int i = 0; i < 8; ++i) {
    const auto held = thread.try_protect(world.source);
    if (!held) continue;
    ++world.uses;
    DeterministicScheduler::step();  // The use takes a while.
    world.uses_after_free += held.pointer->freed ? 1 : 0;
  }
}

template <typename Atomics>
void replace_often(World<Atomics>& world) {
  HazardSnapshot<Atomics> in_use(world.domain);
  // Two objects leave per batch, behind one barrier.
  for (std::size_t i = 0; i + 2 < world.objects.size(); i += 2) {
    world.source.store(&world.objects[i + 1], std::memory_order_release);
    world.source.store(&world.objects[i + 2], std::memory_order_release);
    in_use.refresh(world.domain);
    for (const std::size_t gone : {i, i + 1}) {
      Object& object = world.objects[gone];
      if (!in_use.contains(hazard_value(&object))) object.freed = true;
    }
  }
}

struct Outcome {
  int uses = 0;
  int uses_after_free = 0;
};

template <typename Atomics>
Outcome run_many(const std::function<void()>& barrier, std::uint64_t runs = 500) {
  Outcome total;
  for (std::uint64_t i = 0; i < runs; ++i) {
    World<Atomics> world(barrier ? std::move_only_function<void()>(barrier)
                                 : std::move_only_function<void()>());
    DeterministicScheduler(test_seed() + i)
        .run({[&] { read_often(world); }, [&] { read_often(world); }, [&] { replace_often(world); }});
    total.uses += world.uses;
    total.uses_after_free += world.uses_after_free;
  }
  return total;
}

void membarrier_of_the_model() {
  DeterministicScheduler::step();
  DeterministicScheduler::drain_all();
}

TEST(HazardModel, AsymmetricModeNeverReclaimsWhatIsUsed) {
  const Outcome outcome = run_many<SimAtomics>(membarrier_of_the_model);
  EXPECT_GT(outcome.uses, 1000);
  EXPECT_EQ(outcome.uses_after_free, 0);
}

TEST(HazardModel, FallbackModeNeverReclaimsWhatIsUsed) {
  const Outcome outcome = run_many<SimAtomics>(nullptr);
  EXPECT_GT(outcome.uses, 1000);
  EXPECT_EQ(outcome.uses_after_free, 0);
}

TEST(HazardModel, WithoutTheHeavyBarrierTheErrorIsFound) {
  EXPECT_GT(run_many<SimAtomics>([] { DeterministicScheduler::step(); }).uses_after_free, 0);
}

// A barrier of the reclaimer alone, as a fence would be, does not help either; it
// is wrong in one run of fifty only, hence the number of runs.
TEST(HazardModel, ABarrierOfTheReclaimerAloneIsNotEnough) {
  EXPECT_GT(run_many<SimAtomics>([] { SimAtomics::full_fence(); }, 2000).uses_after_free, 0);
}

TEST(HazardModel, WithoutTheFencesOfTheFallbackTheErrorIsFound) {
  EXPECT_GT(run_many<UnfencedAtomics>(nullptr).uses_after_free, 0);
}

}  // namespace
}  // namespace yonder::sync
