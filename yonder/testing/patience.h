#pragma once
// Patience: how long a test waits for what must happen before it says that it does not.
//
// A test with a deadline of its own guess fails on the first machine that is slower than
// the one it was written on. The rule instead: what gives up after 5 s for a user (the
// default of sessions, ports, endpoints and connections) gets as many times more in a test
// as the slowest place of a test is slower, Soft-RoCE in an emulated guest: 17 times
// (docs/fabric-verbs.md). Nothing takes longer for it but a test that fails.
//
// Not for times that a test means: a lease that is to end, a deadline that is to pass.
//
// Concurrency: a constant.

#include <chrono>

#include "yonder/base/time.h"

namespace yonder::testing {

inline constexpr int kSlowestPlace = 17;
inline constexpr Duration kPatience = kSlowestPlace * std::chrono::seconds(5);

}  // namespace yonder::testing
