#pragma once
// Futex: sleep until a word of memory changes, wake who sleeps on it.
//
// Used for sleeping in shared memory, where a condition variable cannot go. The
// usual protocol: the sleeper sets a "sleeping" flag, checks the word once more
// and waits; the waker changes the word and calls wake only if the flag is set,
// because a wake costs 0.5 µs even when nobody sleeps.
//
// Concurrency: any thread; kShared also any process that maps the word.
// Lifetime: the word must stay mapped while anyone waits on it.

#include <atomic>
#include <cstdint>

#include "yonder/base/result.h"
#include "yonder/base/time.h"

namespace yonder::os {

enum class FutexScope : std::uint8_t {
  kPrivate,  // Waiters and wakers are threads of this process (cheaper).
  kShared,   // The word lies in memory shared between processes.
};

// Sleeps while `word` holds `expected`. Returns when woken, at once if the value
// is another, and sometimes for no reason: the caller checks its condition again.
// Errors: kDeadlineExceeded, kOsError.
Result<void> futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, FutexScope scope,
                        Deadline deadline);

// Wakes up to `count` waiters; how many were woken. Cannot fail.
int futex_wake(const std::atomic<std::uint32_t>& word, int count, FutexScope scope);

}  // namespace yonder::os
