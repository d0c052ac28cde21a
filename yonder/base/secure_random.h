#pragma once
// Random bytes that nobody can guess: the kernel's generator, getrandom(2).
//
// For region keys, session secrets and nonces. About 0.3 us a call; everything
// that needs repeatable numbers takes a Prng instead.
//
// Concurrency: any thread. Errors: whatever getrandom(2) says, in practice only
// kUnsupported in a sandbox that forbids the call. It may wait for the pool to be
// seeded, once, early in the boot of the machine.

#include <cstddef>
#include <cstdint>
#include <span>

#include "yonder/base/result.h"

namespace yonder {

// Fills all of `bytes`, or fails and promises nothing about them.
Result<void> secure_random_fill(std::span<std::byte> bytes);

Result<std::uint64_t> secure_random_u64();

}  // namespace yonder
