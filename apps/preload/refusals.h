#pragma once
// What a program with far memory must not have: ways to give buffers to the kernel that nobody
// can stand before.
//
// With io_uring and the kernel's AIO a buffer is used long after the call that named it, and
// the call may be no function at all: its pages would have left, and the program would get
// EFAULT for an answer where no program expects one. So the kernel says that it has no such
// thing (ENOSYS), by a filter of system calls, and programs do what they do on older kernels.
//
// Concurrency: once, before main(), by the only thread. Lifetime: for ever, in children too.

#include "yonder/base/result.h"

namespace yonder::preload {

// Who may not have filters without (everybody but root) gives up the right to gain rights:
// programs that it starts are not setuid any more. Errors of the system.
Result<void> refuse_asynchronous_calls();

}  // namespace yonder::preload
