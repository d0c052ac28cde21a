#pragma once
// A blocking client of a server in the same test.
//
// Concurrency: one thread. Lifetime: a value.

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "yonder/os/socket.h"
#include "yonder/os/steady_clock.h"
#include "yonder/os/wait.h"

namespace yonder::cache {

class TestClient {
 public:
  explicit TestClient(const std::string& address) {
    const bool path = address.starts_with('/') || address.starts_with('@');
    const os::SocketAddress where = path ? os::SocketAddress::unix_name(address).value()
                                         : os::SocketAddress::resolve(address).value().front();
    auto socket = os::Socket::connect(where, {}, soon());
    EXPECT_TRUE(socket) << socket.error();
    if (socket) socket_ = *std::move(socket);
  }

  bool send(std::string_view bytes) {
    return socket_.send_all(std::as_bytes(std::span(bytes)), soon()).has_value();
  }
  // Everything up to and with `end`; less if the server closes first.
  std::string read_until(std::string_view end) {
    while (held_.find(end) == std::string::npos && receive()) {
    }
    const std::size_t found = held_.find(end);
    if (found == std::string::npos) return std::exchange(held_, {});
    std::string out = held_.substr(0, found + end.size());
    held_.erase(0, found + end.size());
    return out;
  }
  std::string ask(std::string_view command, std::string_view end = "\r\n") {
    return send(command) ? read_until(end) : "(closed)";
  }
  std::string read_to_end() {
    while (receive()) {
    }
    return std::exchange(held_, {});
  }
  const os::Socket& socket() const { return socket_; }

 private:
  static Deadline soon() { return Deadline::at(os::SteadyClock::read() + std::chrono::seconds(60)); }
  bool receive() {
    if (!os::wait_ready(socket_.fd().get(), os::Ready::kReadable, soon())) return false;
    std::array<std::byte, 65536> buffer;
    const auto got = socket_.try_receive(std::span<std::byte>(buffer));
    if (got) held_.append(reinterpret_cast<const char*>(buffer.data()), *got);
    return got.has_value();
  }

  os::Socket socket_;
  std::string held_;
};

}  // namespace yonder::cache
