#pragma once
// A port of the loopback for a server in a process of its own, which has to be told one before it
// listens. Who listens itself asks for port 0 instead.
//
//   YONDER_TRY(address, free_port());
//   spawn({"redis-server", "--port", std::to_string(address.port())});
//
// Not one that the kernel chooses: those are of the range that connections get theirs from, and any
// connection of this machine may have it before the server does. Another caller may still draw the
// same one: one in 20,000.
//
// Concurrency: any thread. Lifetime: values. Errors: kResourceExhausted if a
// hundred ports that were drawn are all taken.

#include "yonder/base/result.h"
#include "yonder/os/address.h"

namespace yonder::os {

// One that was free a moment ago.
Result<SocketAddress> free_port();

}  // namespace yonder::os
