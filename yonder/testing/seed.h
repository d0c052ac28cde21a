#pragma once
// The seed of a random test.
//
// A random test takes its seed from here and nowhere else. The seed is printed
// when a test program starts, so a failure can be repeated with
// `./program --seed=N`; without the flag each run draws a new one.
//
// Concurrency: test_seed() may be called from any thread after main() began.

#include <cstdint>

namespace yonder::testing {

// The seed of this run: --seed=N, else the variable YONDER_TEST_SEED, else random.
std::uint64_t test_seed();

}  // namespace yonder::testing
