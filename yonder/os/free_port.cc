#include "yonder/os/free_port.h"

#include <string>

#include "yonder/base/secure_random.h"
#include "yonder/os/socket.h"

namespace yonder::os {

Result<SocketAddress> free_port() {
  constexpr std::uint64_t kFirst = 10'000;
  constexpr std::uint64_t kPorts = 20'000;  // The kernel's own begin at 32,768.
  constexpr int kTries = 100;
  for (int tries = 0; tries < kTries; ++tries) {
    YONDER_TRY(number, secure_random_u64());
    const std::string place = "127.0.0.1:" + std::to_string(kFirst + number % kPorts);
    YONDER_TRY(addresses, SocketAddress::resolve(place, {.for_listening = true}));
    if (Socket::listen(addresses.front(), {})) return addresses.front();
  }
  return fail(ErrorCode::kResourceExhausted, "find a free port of 127.0.0.1 between 10000 and 29999");
}

}  // namespace yonder::os
