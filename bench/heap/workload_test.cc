#include "bench/heap/workload.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "yonder/heap/heap.h"
#include "yonder/testing/seed.h"

namespace yonder::bench::heap {
namespace {

constexpr std::uint64_t kBytes = 2 << 20;
constexpr std::uint64_t kTinyBytes = 256 << 10;

class EachWorkload : public ::testing::TestWithParam<const Workload*> {};

Work tiny_work(std::uint64_t seed) { return {.seed = seed, .bytes = kTinyBytes}; }

TEST_P(EachWorkload, FollowsFromItsSeed) {
  const std::uint64_t seed = testing::test_seed();
  const Measured one = GetParam()->plain(tiny_work(seed));
  EXPECT_EQ(GetParam()->plain(tiny_work(seed)).checksum, one.checksum);
  EXPECT_NE(GetParam()->plain(tiny_work(seed + 1)).checksum, one.checksum);
}

TEST_P(EachWorkload, TellsWhenItsPhasesBegin) {
  Work work = tiny_work(testing::test_seed());
  std::string calls;
  work.on_measure = [&] { calls += "measure "; };
  work.on_end = [&](const Measured&) { calls += "end"; };
  GetParam()->plain(work);
  EXPECT_EQ(calls, "measure end");
}

std::vector<const Workload*> pointers() {
  std::vector<const Workload*> all;
  for (const Workload& workload : all_workloads()) all.push_back(&workload);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Heap, EachWorkload, ::testing::ValuesIn(pointers()), [](const auto& test) {
  std::string name(test.param->name);
  std::erase(name, '-');
  return name;
});

class EachWorkloadAndMode : public ::testing::TestWithParam<std::tuple<const Workload*, far::Mode>> {};

TEST_P(EachWorkloadAndMode, ComesToTheSameAsOnPlainMemory) {
  const auto& [workload, mode] = GetParam();
  const Work work{.seed = testing::test_seed(), .bytes = kBytes};
  const Measured plain = workload->plain(work);
  const auto heap = far::Heap::create(
      {.local = Bytes(kBytes / 2), .max_local = Bytes(kBytes / 2), .far = Bytes(64 << 20), .mode = mode});
  ASSERT_TRUE(heap) << heap.error().to_string();
  const Measured far_memory = workload->far(work);
  EXPECT_EQ(far_memory.checksum, plain.checksum);
  EXPECT_EQ(far_memory.operations, plain.operations);
  EXPECT_EQ(far_memory.wrong_objects, 0u);
  // It did run on memory that is too small.
  EXPECT_GT((*heap)->stats().pages_written + (*heap)->stats().objects_written, 0u);
  EXPECT_EQ(plain.wrong_objects, 0u);
  EXPECT_GT(plain.operations, 0u);
  far::Heap::leave_thread();
}

INSTANTIATE_TEST_SUITE_P(Heap, EachWorkloadAndMode,
                         ::testing::Combine(::testing::ValuesIn(pointers()),
                                            ::testing::Values(far::Mode::kHybrid, far::Mode::kPaging,
                                                              far::Mode::kObject)));

TEST(Workloads, AreFoundByName) {
  ASSERT_NE(find_workload("GPR"), nullptr);
  EXPECT_EQ(find_workload("GPR")->name, "GPR");
  EXPECT_EQ(find_workload("gpr"), nullptr);
}

}  // namespace
}  // namespace yonder::bench::heap
