#pragma once
// Children of a program with far memory.
//
// Concurrency: once, before main(). Lifetime: for ever.

namespace yonder::preload {

// Far memory is prepared for every fork() from now on.
void watch_forks();

}  // namespace yonder::preload
