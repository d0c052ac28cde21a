// Checked against an independent simulation of the paper's algorithms: figures
// of "Figure 17 scaled", 1,000,000 objects, one thread, MiB of 1 MiB blocks.
#include "bench/fragmentation/strategies.h"

#include <gtest/gtest.h>

#include <numeric>

namespace yonder::bench {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

PaperAllocator synthetic(std::uint32_t bytes, double freed, std::uint32_t count) {
  PaperAllocator allocator({.class_sizes = {bytes}});
  for (std::uint32_t i = 0; i < count; ++i) allocator.allocate(i, bytes);
  std::vector<std::uint32_t> victims(count);
  std::iota(victims.begin(), victims.end(), 0u);
  Prng random(3);
  for (std::size_t i = victims.size(); i > 1; --i) std::swap(victims[i - 1], victims[random.below(i)]);
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(freed * count); ++i) allocator.free(victims[i]);
  return allocator;
}

struct Expected {
  std::uint32_t bytes;
  double freed;
  std::uint64_t none, ideal, mesh, corm16;
};

TEST(Strategies, GiveTheFiguresOfAnIndependentSimulation) {
  const Expected table[] = {{2048, 0.5, 1954, 977, 1954, 989},
                            {2048, 0.9, 1954, 196, 1102, 207},
                            {8192, 0.7, 7813, 2344, 7698, 2602}};
  for (const Expected& row : table) {
    const PaperAllocator allocator = synthetic(row.bytes, row.freed, 1'000'000);
    const auto mib = [&](Strategy strategy) {
      return static_cast<double>(allocator.active_bytes({strategy}) / kMiB);
    };
    EXPECT_NEAR(mib(Strategy::kNone), static_cast<double>(row.none), 1);
    EXPECT_NEAR(mib(Strategy::kIdeal), static_cast<double>(row.ideal), 1);
    EXPECT_NEAR(mib(Strategy::kMesh), static_cast<double>(row.mesh), 0.03 * static_cast<double>(row.mesh));
    EXPECT_NEAR(mib(Strategy::kCorm), static_cast<double>(row.corm16),
                0.03 * static_cast<double>(row.corm16));
  }
}

TEST(Strategies, CormLeavesAloneWhatItsIdsCannotName) {
  const PaperAllocator allocator = synthetic(8, 0.99, 300'000);
  EXPECT_EQ(allocator.active_bytes({Strategy::kCorm, 16}), allocator.active_bytes({Strategy::kNone}));
  EXPECT_LE(allocator.active_bytes({Strategy::kHybrid, 16}), allocator.active_bytes({Strategy::kNone}));
}

TEST(Strategies, ThreadsCostBlocksAndLargeObjectsCostPages) {
  PaperAllocator allocator({.threads = 8, .seed = 4, .class_sizes = {64}});
  for (std::uint32_t i = 0; i < 1000; ++i) allocator.allocate(i, 64);
  EXPECT_EQ(allocator.active_bytes({Strategy::kNone}), 8 * kMiB);
  EXPECT_EQ(allocator.active_bytes({Strategy::kIdeal}), kMiB);
  allocator.allocate(5000, 10000);
  EXPECT_EQ(allocator.active_bytes({Strategy::kIdeal}), kMiB + 3 * 4096);
  allocator.free(5000);
  for (std::uint32_t i = 0; i < 1000; ++i) allocator.free(i);
  EXPECT_EQ(allocator.active_bytes({Strategy::kNone}), 0u);
  EXPECT_EQ(allocator.live_bytes(), 0u);
}

}  // namespace
}  // namespace yonder::bench
