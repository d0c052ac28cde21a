#pragma once
// The daemon as tests start it: a process of its own on free ports, a directory that
// goes with the test, and sessions to it.
//
// Concurrency: one thread. Lifetime: a Daemon kills its process.

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "yonder/client/session.h"
#include "yonder/fabric/open/open.h"
#include "yonder/os/process.h"
#include "yonder/os/steady_clock.h"
#include "yonder/os/wait.h"

namespace yonder::e2e {

inline const os::SteadyClock kClock;
inline Deadline soon() { return Deadline::after(kClock, std::chrono::seconds(60)); }

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = "/tmp/yonderd-test-XXXXXX";
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~TemporaryDirectory() {
    for (const std::string& name : files_) ::unlink((path_ + "/" + name).c_str());
    ::rmdir(path_.c_str());
  }
  std::string file(const std::string& name) {
    files_.push_back(name);
    return path_ + "/" + name;
  }

 private:
  std::string path_;
  std::vector<std::string> files_;
};

// A name for `shm:` that no other test has.
inline std::string free_shm_address() {
  static int next = 0;
  return fmt::format("shm:yonderd-test-{}-{}", ::getpid(), next++);
}

// What a program says on its standard output until "ready": lines "KEY VALUE".
class Announcement {
 public:
  explicit Announcement(int fd) {
    std::string line;
    for (char c = 0; os::wait_ready(fd, os::Ready::kReadable, soon()) && ::read(fd, &c, 1) == 1;) {
      if (c != '\n') {
        line += c;
        continue;
      }
      if (line == "ready") {
        ready_ = true;
        return;
      }
      const std::string value = line.substr(line.find(' ') + 1);
      if (line.starts_with("admin")) addresses_["admin"] = value;
      if (line.starts_with("node")) addresses_[value.substr(0, value.find(':'))] = value;
      line.clear();
    }
  }
  bool ready() const { return ready_; }
  // By provider, or "admin".
  const std::string& address(const std::string& of) const { return addresses_.at(of); }

 private:
  std::map<std::string, std::string> addresses_;
  bool ready_ = false;
};

// A program that has been started, and has said what it says.
class Program {
 public:
  explicit Program(const os::SpawnOptions& options)
      : Program([&](int output) {
          os::SpawnOptions spawn = options;
          spawn.stdout_fd = output;
          return os::Child::spawn(spawn).value();
        }) {}
  // Started by `start`, which is told where its output goes.
  explicit Program(const std::function<os::Child(int output)>& start) {
    std::array<int, 2> pipe{};
    EXPECT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
    child_.emplace(start(pipe[1]));
    ::close(pipe[1]);
    announcement_.emplace(pipe[0]);
    ::close(pipe[0]);
  }
  os::Child& child() { return *child_; }
  bool ready() const { return announcement_->ready(); }
  const std::string& address(const std::string& of) const { return announcement_->address(of); }
  // Ends it and says how it ended.
  os::ExitStatus end(int signal) {
    EXPECT_TRUE(child_->kill(signal));
    return child_->wait(soon()).value();
  }

 private:
  std::optional<os::Child> child_;
  std::optional<Announcement> announcement_;
};

struct DaemonOptions {
  std::string program;                   // The path of yonderd.
  std::string listen;                    // Empty: a free shm address and a free port.
  std::vector<std::string> flags;        // Further ones.
  std::vector<std::string> environment;  // "NAME=value"
};
inline Program start_daemon(const DaemonOptions& options) {
  const std::string listen =
      options.listen.empty() ? free_shm_address() + ",tcp://127.0.0.1:0" : options.listen;
  os::SpawnOptions spawn{
      .argv = {options.program, "--listen", listen, "--admin", "127.0.0.1:0", "--memory", "64MiB"},
      .extra_environment = options.environment};
  spawn.argv.insert(spawn.argv.end(), options.flags.begin(), options.flags.end());
  return Program(spawn);
}

struct Connected {
  std::unique_ptr<fabric::Fabric> fabric;
  std::unique_ptr<client::Session> session;
  client::Session* operator->() const { return session.get(); }
};

inline Connected connect(const std::string& address) {
  Connected out;
  out.fabric = fabric::open(address).value();
  auto session = client::Session::connect(*out.fabric, {.address = address});
  EXPECT_TRUE(session) << session.error();
  out.session = *std::move(session);
  return out;
}

inline std::vector<std::byte> bytes_of(std::size_t count, int value) {
  return std::vector<std::byte>(count, static_cast<std::byte>(value));
}

}  // namespace yonder::e2e
