#pragma once
// A port of the loopback for a server that a test starts.
//
// Not one that the kernel chooses: those are of the range that connections get theirs from, and
// any connection of this machine may have it before the server does.
//
// Concurrency: any thread. Lifetime: values.

#include <string>

#include "yonder/base/check.h"
#include "yonder/base/secure_random.h"
#include "yonder/os/address.h"
#include "yonder/os/socket.h"

namespace yonder::e2e {

// One that was free a moment ago.
inline os::SocketAddress free_port() {
  constexpr std::uint64_t kFirst = 10'000;
  constexpr std::uint64_t kPorts = 20'000;  // The kernel's own begin at 32,768.
  for (int tries = 0; tries < 100; ++tries) {
    const std::uint64_t port = kFirst + secure_random_u64().value() % kPorts;
    const auto place =
        os::SocketAddress::resolve("127.0.0.1:" + std::to_string(port), {.for_listening = true}).value();
    if (os::Socket::listen(place.front(), {})) return place.front();
  }
  YONDER_CHECK(false, "some port of the loopback is free");
  __builtin_unreachable();
}

}  // namespace yonder::e2e
