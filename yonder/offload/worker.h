#pragma once
// The worker: the process in which functions of one library run on one client's memory.
//
//   int main() { return yonder::offload::run_worker(); }
//
// Standard input is the socket to the host (internal/messages.h). The worker maps the memory
// where the client has it, loads the library, gives up its rights (confinement.h), says that
// it is ready, and answers calls until the host hangs up or kills it. It has no other
// memory of a client, and no descriptor of anything, when the first function runs. (What
// the library does while it is loaded, in constructors of its globals, happens before:
// without capabilities, but with system calls.)
//
// Concurrency: one thread. Lifetime: of its process.

namespace yonder::offload {

// The process's exit code. 0: the host has hung up.
int run_worker();

}  // namespace yonder::offload
