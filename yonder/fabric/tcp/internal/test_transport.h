#pragma once
// A transport in memory, for tests and fuzzers: what the peer sent is put in by
// hand, in pieces of any size, and what we send is kept, as much as there is room.
//
// Concurrency: one thread. Lifetime: a Wire outlives the transports made for it.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "yonder/fabric/tcp/internal/transport.h"

namespace yonder::fabric::tcp {

// What is on its way, seen from the outside.
struct Wire {
  std::vector<std::byte> to_us;
  std::size_t taken = 0;
  std::vector<std::byte> from_us;
  std::size_t room = SIZE_MAX;  // Bytes that can still be sent.
  bool closed = false;          // After to_us has been taken.

  void put(std::span<const std::byte> bytes) { to_us.insert(to_us.end(), bytes.begin(), bytes.end()); }
  template <typename T>
  void put_struct(const T& value) {
    put(std::as_bytes(std::span(&value, 1)));
  }
  // Takes a T off the front of what we sent.
  template <typename T>
  T pop_struct() {
    T value;
    std::memcpy(&value, from_us.data(), sizeof value);
    from_us.erase(from_us.begin(), from_us.begin() + sizeof value);
    return value;
  }
};

class TestTransport final : public Transport {
 public:
  explicit TestTransport(Wire& wire) : Transport(os::Socket()), wire_(wire) {}

  Result<std::size_t> receive(std::span<const iovec> into) override {
    std::size_t total = 0;
    for (const iovec& part : into) {
      const std::size_t count = std::min(part.iov_len, wire_.to_us.size() - wire_.taken);
      if (count != 0) std::memcpy(part.iov_base, wire_.to_us.data() + wire_.taken, count);
      wire_.taken += count;
      total += count;
    }
    if (total == 0 && wire_.closed) return fail(ErrorCode::kConnectionLost, "test transport");
    return total;
  }

  Result<std::size_t> send(std::span<const iovec> from) override {
    std::size_t total = 0;
    for (const iovec& part : from) {
      const std::size_t count = std::min(part.iov_len, wire_.room);
      const auto* bytes = static_cast<const std::byte*>(part.iov_base);
      wire_.from_us.insert(wire_.from_us.end(), bytes, bytes + count);
      if (wire_.room != SIZE_MAX) wire_.room -= count;
      total += count;
    }
    return total;
  }

 private:
  Wire& wire_;
};

}  // namespace yonder::fabric::tcp
