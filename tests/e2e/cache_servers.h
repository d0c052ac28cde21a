#pragma once
// Cache servers as tests start them: rcached and Debian's memcached, as processes of their
// own in a directory that goes with the test; and a client that talks to them in bytes.
//
// Concurrency: one thread. Lifetime: a CacheServer kills its process.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "yonder/os/process.h"
#include "yonder/os/socket.h"
#include "yonder/os/steady_clock.h"
#include "yonder/os/wait.h"

namespace yonder::e2e {

inline Deadline within(Duration duration) { return Deadline::at(os::SteadyClock::read() + duration); }
inline constexpr Duration kPatience = std::chrono::seconds(30);

class CacheDirectory {
 public:
  CacheDirectory() {
    std::string name = "/tmp/rcached-test-XXXXXX";
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~CacheDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// A connection on which tests say what they like.
class RawClient {
 public:
  explicit RawClient(const os::SocketAddress& address) {
    auto socket = os::Socket::connect(address, {}, within(kPatience));
    EXPECT_TRUE(socket) << socket.error();
    if (socket) socket_ = *std::move(socket);
  }

  // False if the server has closed.
  bool send(std::string_view bytes) {
    return socket_.send_all(std::as_bytes(std::span(bytes)), within(kPatience)).has_value();
  }
  // Reads until what was read since the last call contains `end`, the server closes, or
  // `patience` is over; what was read, with `end`.
  std::string read_until(std::string_view end, Duration patience = kPatience) {
    const Deadline deadline = within(patience);
    for (;;) {
      const std::size_t found = held_.find(end);
      if (found != std::string::npos) {
        std::string out = held_.substr(0, found + end.size());
        held_.erase(0, found + end.size());
        return out;
      }
      if (closed_ || !os::wait_ready(socket_.fd().get(), os::Ready::kReadable, deadline)) {
        return std::exchange(held_, {});
      }
      std::array<std::byte, 65536> buffer;
      const auto got = socket_.try_receive(std::span<std::byte>(buffer));
      closed_ = !got.has_value();
      if (got) held_.append(reinterpret_cast<const char*>(buffer.data()), *got);
    }
  }
  std::string ask(std::string_view command, std::string_view end = "\r\n") {
    send(command);
    return read_until(end);
  }
  bool closed() const { return closed_; }
  // Waits until the server closes; what came before.
  std::string read_to_end(Duration patience = kPatience) {
    return read_until(std::string_view("\0never\0", 7), patience);
  }
  const os::Socket& socket() const { return socket_; }

 private:
  os::Socket socket_;
  std::string held_;
  bool closed_ = false;
};

// Listens at a Unix socket of the directory.
class CacheServer {
 public:
  CacheServer(const std::string& program, const std::string& socket_path, std::vector<std::string> flags = {})
      : address_(os::SocketAddress::unix_name(socket_path).value()) {
    std::vector<std::string> argv = {program, "-s", socket_path};
    if (::geteuid() == 0) argv.insert(argv.end(), {"-u", "root"});
    argv.insert(argv.end(), flags.begin(), flags.end());
    const os::Fd quiet = os::Fd::open("/dev/null", O_WRONLY).value();
    auto child = os::Child::spawn({.argv = argv, .stdout_fd = quiet.get()});
    EXPECT_TRUE(child) << child.error() << " (is " << program << " installed?)";
    if (!child) return;
    child_.emplace(*std::move(child));
    wait_until_it_listens();
  }

  const os::SocketAddress& address() const { return address_; }
  os::Child& child() { return *child_; }
  RawClient connect() const { return RawClient(address_); }

 private:
  void wait_until_it_listens() const {
    const Instant give_up = os::SteadyClock::read() + kPatience;
    while (!os::Socket::connect(address_, {}, within(kPatience))) {
      if (os::SteadyClock::read() > give_up) {
        ADD_FAILURE() << "the server does not listen";
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  os::SocketAddress address_;
  std::optional<os::Child> child_;
};

}  // namespace yonder::e2e
