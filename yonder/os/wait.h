#pragma once
// Waiting for a descriptor, with a deadline.
//
// Deadlines in this folder are instants of SteadyClock. A default-constructed
// Deadline is replaced by kDefaultWait from now: nothing waits for ever unless a
// test says Deadline::never().
//
// Concurrency: any thread.

#include <time.h>

#include <optional>

#include "yonder/base/result.h"
#include "yonder/base/time.h"

namespace yonder::os {

inline constexpr Duration kDefaultWait = std::chrono::seconds(30);

enum class Ready { kReadable, kWritable };

// Waits until `fd` is ready or has failed or was hung up (the next operation on
// it then tells). Signals do not end the wait.
// Errors: kDeadlineExceeded, kOsError.
Result<void> wait_ready(int fd, Ready what, Deadline deadline);

// `deadline`, or kDefaultWait from now if it is the default one. Loops that wait
// several times fix their deadline with this first.
Deadline fix_deadline(Deadline deadline);

// The time left as the kernel wants it, zero if the deadline passed, nothing for
// Deadline::never(). Requires a deadline that is not the default one (checked).
std::optional<timespec> time_left(Deadline deadline);

}  // namespace yonder::os
