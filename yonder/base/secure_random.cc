#include "yonder/base/secure_random.h"

#include <sys/random.h>

#include <cerrno>

namespace yonder {

Result<void> secure_random_fill(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::getrandom(bytes.data(), bytes.size(), 0);
    if (got < 0) {
      if (errno == EINTR) continue;
      return fail_errno("getrandom");
    }
    // Requests over 256 bytes may be cut short by a signal.
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

Result<std::uint64_t> secure_random_u64() {
  std::uint64_t value = 0;
  YONDER_TRY_VOID(secure_random_fill(std::as_writable_bytes(std::span(&value, 1))));
  return value;
}

}  // namespace yonder
