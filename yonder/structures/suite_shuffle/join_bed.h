#pragma once
// The test bed of the join: E executors on some provider, relations in memory, and the
// same join done the simple way.
//
// In virtual time one thread drives all executors; otherwise each has its own.
//
// Concurrency: the test's thread.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "yonder/structures/join.h"
#include "yonder/structures/suite_shuffle/bed.h"

namespace yonder::structures::suite {

struct JoinCase {
  std::uint32_t executors = 3;
  JoinOptions options;          // addresses and numbers are filled in
  std::vector<Records> builds;  // of each executor
  std::vector<Records> probes;
};

// "key|probe value|build value", with "-" for a row without a pair; sorted.
using JoinResult = std::vector<std::string>;

JoinResult reference_join(const JoinCase& join);

// What became of it: the rows of all executors, and of each how it ended.
struct JoinOutcome {
  JoinResult rows;
  std::vector<Result<JoinStats>> stats;
};

class JoinSuite : public ::testing::TestWithParam<Provider> {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Runs it, and fails the test if an executor cannot be made.
  JoinOutcome run(const JoinCase& join);
  // … and if it is not the reference join.
  JoinOutcome run_and_check(const JoinCase& join);

  std::unique_ptr<Place> place_;
};

}  // namespace yonder::structures::suite
