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

#include "yonder/os/free_port.h"
#include "yonder/os/process.h"
#include "yonder/os/socket.h"
#include "yonder/os/steady_clock.h"
#include "yonder/os/wait.h"

namespace yonder::e2e {

inline Deadline within(Duration duration) { return Deadline::at(os::SteadyClock::read() + duration); }
inline constexpr Duration kPatience = std::chrono::seconds(30);

// Whether the condition came true, asked again and again, before patience ran out.
template <typename Condition>
bool eventually(Condition condition) {
  const Deadline give_up = within(kPatience);
  while (!condition()) {
    if (give_up.passed(os::SteadyClock::read())) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

inline os::SocketAddress free_port() { return os::free_port().value(); }

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

// What a program printed, and how it ended.
struct ProgramRun {
  std::string output;  // Both of its streams.
  os::ExitStatus status;
};
inline ProgramRun run_program(const std::vector<std::string>& argv, Duration patience = kPatience) {
  std::array<int, 2> pipe{};
  EXPECT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  os::Fd read_end(pipe[0]);
  os::Fd write_end(pipe[1]);
  auto child = os::Child::spawn({.argv = argv, .stdout_fd = write_end.get(), .stderr_fd = write_end.get()});
  EXPECT_TRUE(child) << child.error() << " (is " << argv.front() << " installed?)";
  if (!child) return {.output = {}, .status = {.signalled = false, .value = -1}};
  write_end.reset();
  ProgramRun out{.output = {}, .status = {.signalled = true, .value = 0}};
  const Deadline deadline = within(patience);
  std::array<char, 4096> buffer;
  while (os::wait_ready(read_end.get(), os::Ready::kReadable, deadline)) {
    const ssize_t got = ::read(read_end.get(), buffer.data(), buffer.size());
    if (got <= 0) break;
    out.output.append(buffer.data(), static_cast<std::size_t>(got));
  }
  const auto status = child->wait(deadline);
  EXPECT_TRUE(status) << argv.front() << " does not end; it said: " << out.output;
  if (status) out.status = *status;
  return out;
}

// Two files: a certificate that trusts itself, and its key.
struct Certificate {
  std::string certificate;
  std::string key;
};
inline Certificate make_certificate(const CacheDirectory& directory) {
  Certificate made{.certificate = directory.file("cert.pem"), .key = directory.file("key.pem")};
  const ProgramRun run = run_program({"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                                      "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                                      "/CN=rcached", "-keyout", made.key, "-out", made.certificate});
  EXPECT_TRUE(run.status.success()) << run.output;
  return made;
}

// Listens at a Unix socket, or at a port of the loopback.
class CacheServer {
 public:
  CacheServer(const std::string& program, const std::string& socket_path, std::vector<std::string> flags = {})
      : CacheServer(program, os::SocketAddress::unix_name(socket_path).value(), {"-s", socket_path},
                    std::move(flags)) {}
  CacheServer(const std::string& program, const os::SocketAddress& port, std::vector<std::string> flags = {})
      : CacheServer(program, port, {"-l", "127.0.0.1", "-p", std::to_string(port.port())}, std::move(flags)) {
  }

  const os::SocketAddress& address() const { return address_; }
  std::string port() const { return std::to_string(address_.port()); }
  os::Child& child() { return *child_; }
  RawClient connect() const { return RawClient(address_); }

 private:
  CacheServer(const std::string& program, const os::SocketAddress& address, std::vector<std::string> place,
              std::vector<std::string> flags)
      : address_(address) {
    std::vector<std::string> argv = {program};
    argv.insert(argv.end(), place.begin(), place.end());
    if (::geteuid() == 0) argv.insert(argv.end(), {"-u", "root"});
    argv.insert(argv.end(), flags.begin(), flags.end());
    const os::Fd quiet = os::Fd::open("/dev/null", O_WRONLY).value();
    auto child = os::Child::spawn({.argv = argv, .stdout_fd = quiet.get()});
    EXPECT_TRUE(child) << child.error() << " (is " << program << " installed?)";
    if (!child) return;
    child_.emplace(*std::move(child));
    wait_until_it_listens();
  }

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
