// That the optimisations pay in the model, and that the model is the same for the same seed.
#include "bench/hashtable/sim_table.h"

#include <gtest/gtest.h>

namespace yonder::bench {
namespace {

constexpr SimTableOptions kSmall{.front_ends = 6,
                                 .keys = 3000,
                                 .warm_up = std::chrono::milliseconds(2),
                                 .duration = std::chrono::milliseconds(1)};

TEST(SimTable, OptimisationsPay) {
  SimTableOptions options = kSmall;
  const double all = measure_sim_table(options).value();
  options.consolidate = false;
  const double placed = measure_sim_table(options).value();
  options.numa_aware = false;
  const double basic = measure_sim_table(options).value();
  EXPECT_GT(all, placed);
  EXPECT_GE(placed, basic);
}

TEST(SimTable, IsTheSameForTheSameSeed) {
  EXPECT_EQ(measure_sim_table(kSmall).value(), measure_sim_table(kSmall).value());
}

}  // namespace
}  // namespace yonder::bench
