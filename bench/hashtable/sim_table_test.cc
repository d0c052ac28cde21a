// That the optimisations pay in the model, and that the model is the same for the same seed.
#include "bench/hashtable/sim_table.h"

#include <gtest/gtest.h>

namespace yonder::bench {
namespace {

constexpr SimTableOptions kSmall{.front_ends = 6,
                                 .keys = 3000,
                                 .warm_up = std::chrono::milliseconds(2),
                                 .duration = std::chrono::milliseconds(1)};

TEST(SimTable, ConsolidationPays) {
  SimTableOptions options = kSmall;
  const double all = measure_sim_table(options).value();
  options.consolidate = false;
  options.write_back = {};
  EXPECT_GT(all, 2.0 * measure_sim_table(options).value());
}

TEST(SimTable, PlacementPays) {
  SimTableOptions options = kSmall;
  options.front_ends = 1;  // Nobody else to lose a swap to: that would say more about luck.
  options.consolidate = false;
  options.write_back = {};
  const double placed = measure_sim_table(options).value();
  options.numa_aware = false;
  EXPECT_GT(placed, measure_sim_table(options).value());
}

TEST(SimTable, IsTheSameForTheSameSeed) {
  EXPECT_EQ(measure_sim_table(kSmall).value(), measure_sim_table(kSmall).value());
}

}  // namespace
}  // namespace yonder::bench
