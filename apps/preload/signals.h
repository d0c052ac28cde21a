#pragma once
// SIGBUS belongs to far memory; the program believes that it has it.
//
// Concurrency: once, before main(). Lifetime: for ever.

namespace yonder::preload {

// What far memory does not want goes to the program's handler from now on. Before the space
// installs its own.
void take_bus_signal();

}  // namespace yonder::preload
