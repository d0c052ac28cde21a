#pragma once
// How long random tests go on.
//
// `make test` must be quick; a night may be long. A test whose worth grows with its
// length multiplies what it does by test_effort(), which is 1 unless the program is
// started with --effort=N (or YONDER_TEST_EFFORT is set). `make soak` does that.
//
// Concurrency: any thread after main() began.

#include <cstdint>

namespace yonder::testing {

std::uint64_t test_effort();

}  // namespace yonder::testing
