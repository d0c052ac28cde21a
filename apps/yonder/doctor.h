#pragma once
// `yonder doctor`: what this machine can do for Yonder, and what to change.
//
// Concurrency: one thread.

namespace yonder::apps {

// Prints one line per ability. Returns the exit code: 0 if the embedded default
// (shm and tcp) works.
int run_doctor();

}  // namespace yonder::apps
