// Unmodified programs under `yonder run`.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/e2e/daemon.h"
#include "yonder/base/prng.h"
#include "yonder/os/free_port.h"
#include "yonder/os/process.h"
#include "yonder/testing/seed.h"

namespace yonder::e2e {
namespace {

namespace fs = std::filesystem;

// A directory that goes with the test, whatever the programs have put into it.
class Folder {
 public:
  Folder() {
    std::string name = "/tmp/yonder-preload-XXXXXX";
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~Folder() { fs::remove_all(path_); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

std::string text_in(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The value of a key in the last line of statistics that says of anything that it left.
std::uint64_t figure(const std::string& path, const std::string& key) {
  std::uint64_t best = 0;
  std::istringstream lines(text_in(path));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find("\"" + key + "\":");
    if (at != std::string::npos)
      best = std::max<std::uint64_t>(best, std::stoull(line.substr(at + key.size() + 3)));
  }
  return best;
}

struct Ended {
  os::ExitStatus status;
  std::string output;  // And errors.
};

os::Child start(const Folder& folder, const std::vector<std::string>& flags,
                const std::vector<std::string>& command, const std::vector<std::string>& environment = {}) {
  const int output = ::open((folder / "output").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  os::SpawnOptions spawn{.argv = {YONDER, "run", "--stats", folder / "stats"},
                         .extra_environment = environment,
                         .stdout_fd = output,
                         .stderr_fd = output};
  spawn.argv.insert(spawn.argv.end(), flags.begin(), flags.end());
  spawn.argv.push_back("--");
  spawn.argv.insert(spawn.argv.end(), command.begin(), command.end());
  os::Child child = os::Child::spawn(spawn).value();
  ::close(output);
  return child;
}

Ended run(const Folder& folder, const std::vector<std::string>& flags,
          const std::vector<std::string>& command, const std::vector<std::string>& environment = {}) {
  os::Child child = start(folder, flags, command, environment);
  const auto status = child.wait(soon());
  EXPECT_TRUE(status) << text_in(folder / "output");
  return {.status = status.value_or(os::ExitStatus{.signalled = true, .value = 0}),
          .output = text_in(folder / "output")};
}

std::uint64_t private_bytes(pid_t pid) {
  std::istringstream lines(text_in(fmt::format("/proc/{}/status", pid)));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("RssAnon:")) return std::stoull(line.substr(8)) * 1024;
  }
  return 0;
}

TEST(Preload, SortsMoreThanItsLocalMemory) {
  const Folder folder;
  constexpr std::uint64_t kLines = 1'000'000;
  {
    Prng prng(testing::test_seed());
    std::ofstream file(folder / "in");
    for (std::uint64_t i = 0; i < kLines; ++i) file << prng.below(1'000'000'000) << '\n';
  }
  const Ended sorted = run(folder, {"--far", "256MiB", "--local", "12MiB"},
                           {"sort", "-n", "-S", "150M", folder / "in", "-o", folder / "out"});
  ASSERT_TRUE(sorted.status.success()) << sorted.output;
  EXPECT_GT(figure(folder / "stats", "fetched_pages"), 1000u);
  std::vector<std::uint64_t> expected;
  std::ifstream in(folder / "in");
  for (std::uint64_t number = 0; in >> number;) expected.push_back(number);
  std::sort(expected.begin(), expected.end());
  std::ifstream out(folder / "out");
  for (const std::uint64_t want : expected) {
    std::uint64_t got = 0;
    ASSERT_TRUE(out >> got);
    ASSERT_EQ(got, want);
  }
}

TEST(Preload, RunsAnInterpreterWithChildrenAndSignals) {
  const Folder folder;
  std::ofstream(folder / "program.py") << R"(
import os, signal, subprocess, sys, threading
pieces = [str(i) * 200 for i in range(60000)]
ticks = []
signal.signal(signal.SIGALRM, lambda *_: ticks.append(pieces[len(ticks) * 97 % len(pieces)]))
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
table = {p: i for i, p in enumerate(pieces)}
assert all(table[str(i) * 200] == i for i in range(len(pieces)))
signal.setitimer(signal.ITIMER_REAL, 0)
child = os.fork()
if child == 0:
    os._exit(0 if all(p == str(i) * 200 for i, p in enumerate(pieces)) else 3)
assert os.waitpid(child, 0)[1] == 0
assert subprocess.run([sys.executable, '-c', 'print(6 * 7)'], capture_output=True, text=True).stdout == '42\n'
threads = [threading.Thread(target=lambda: table.__contains__(pieces[5])) for _ in range(20)]
[t.start() for t in threads]; [t.join() for t in threads]
print('ok', len(ticks) > 0)
)";
  const Ended ended =
      run(folder, {"--far", "512MiB", "--local", "24MiB"}, {"python3", folder / "program.py"});
  EXPECT_TRUE(ended.status.success()) << ended.output;
  EXPECT_NE(ended.output.find("ok True"), std::string::npos) << ended.output;
  EXPECT_GT(figure(folder / "stats", "fetched_pages"), 1000u);
}

TEST(Preload, RunsThreadsAndAForkWithoutChangingWhatTheySee) {
  const Folder folder;
  const Ended ended = run(folder, {"--far", "400MiB", "--local", "10%"}, {FAR_PROGRAM, "80"});
  EXPECT_TRUE(ended.status.success()) << ended.output;
  EXPECT_EQ(ended.output, "ok\n");
  EXPECT_GT(figure(folder / "stats", "fetched_pages"), 1000u);
}

TEST(Preload, ServesSystemCallsThatAreMadeByTheirNumberAndRefusesRings) {
  const Folder folder;
  const Ended ended = run(folder, {"--far", "200MiB", "--local", "10%"}, {RAW_PROGRAM, "80"});
  EXPECT_TRUE(ended.status.success()) << ended.output;
  EXPECT_EQ(ended.output, "ok\n");
  EXPECT_GT(figure(folder / "stats", "fetched_pages"), 1000u);
}

// The filter is inherited, and a program that finds it adds none: a chain of programs may be long.
TEST(Preload, FiltersSystemCallsOnceHoweverManyProgramsFollowEachOther) {
  const Folder folder;
  const Ended ended = run(folder, {"--far", "64MiB"},
                          {"sh", "-c", "sh -c 'grep Seccomp_filters /proc/self/status; true'; true"});
  EXPECT_TRUE(ended.status.success()) << ended.output;
  const std::string before = text_in("/proc/self/status");
  const auto filters = [](const std::string& text) {
    const std::size_t at = text.find("Seccomp_filters:");
    return at == std::string::npos ? -1 : std::atoi(text.c_str() + at + std::strlen("Seccomp_filters:"));
  };
  EXPECT_EQ(filters(ended.output), filters(before) + 1) << ended.output;
}

TEST(Preload, UsesAMemoryNodeAndDiesClearlyWithIt) {
  Program node = start_daemon({.program = YONDERD, .flags = {"--memory", "512MiB"}});
  ASSERT_TRUE(node.ready());
  const Folder folder;
  const std::vector<std::string> flags = {"--far", "128MiB", "--local",
                                          "12MiB", "--node", node.address("tcp")};
  const Ended sorted = run(folder, flags, {"sort", "-S", "60M", "-o", folder / "out", YONDER});
  EXPECT_TRUE(sorted.status.success()) << sorted.output;
  EXPECT_GT(figure(folder / "stats", "fetched_pages"), 100u);
  // Another one goes round in its memory until the node is killed.
  os::Child victim = start(folder, flags,
                           {"python3", "-c",
                            "l=[bytes([i%251])*1000 for i in range(40000)]\nprint('round',flush=True)\n"
                            "while True:\n  assert all(x[9]==i%251 for i,x in enumerate(l))"},
                           {"YONDER_PATIENCE_MS=1500"});
  const Deadline deadline = soon();
  while (text_in(folder / "output") != "round\n" && !deadline.passed(kClock.now())) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  node.end(SIGKILL);
  const auto status = victim.wait(soon());
  ASSERT_TRUE(status);
  EXPECT_TRUE(status->signalled);
  EXPECT_NE(text_in(folder / "output").find("cannot be brought from far memory"), std::string::npos)
      << text_in(folder / "output");
}

// ---------------------------------------------------------------- redis

// Just enough of redis's protocol: a command goes out, an answer comes back.
class RedisClient {
 public:
  explicit RedisClient(int port) {
    const sockaddr_in address{.sin_family = AF_INET,
                              .sin_port = htons(static_cast<std::uint16_t>(port)),
                              .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const Deadline deadline = soon();
    for (;;) {
      fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) break;
      ::close(fd_);
      if (deadline.passed(kClock.now())) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    file_ = ::fdopen(fd_, "r+");
  }
  ~RedisClient() { std::fclose(file_); }

  void send(const std::vector<std::string>& words) {
    out_ += fmt::format("*{}\r\n", words.size());
    for (const std::string& word : words) out_ += fmt::format("${}\r\n{}\r\n", word.size(), word);
  }
  void flush() {
    for (std::size_t done = 0; done < out_.size();) {
      const ssize_t part = ::write(fd_, out_.data() + done, out_.size() - done);
      ASSERT_GT(part, 0);
      done += static_cast<std::size_t>(part);
    }
    out_.clear();
  }
  // A bulk string's content, or the line of any other answer.
  std::string receive() {
    std::array<char, 512> line{};
    if (std::fgets(line.data(), line.size(), file_) == nullptr) return "(closed)";
    if (line[0] != '$') return std::string(line.data() + 1, std::strcspn(line.data() + 1, "\r"));
    const long length = std::atol(line.data() + 1);
    if (length < 0) return "(nothing)";
    std::string value(static_cast<std::size_t>(length) + 2, '\0');
    if (std::fread(value.data(), 1, value.size(), file_) != value.size()) return "(closed)";
    value.resize(value.size() - 2);
    return value;
  }
  std::string call(const std::vector<std::string>& words) {
    send(words);
    flush();
    return receive();
  }

 private:
  int fd_ = -1;
  std::FILE* file_ = nullptr;
  std::string out_;
};

std::string value_of(int key, int version) {
  return fmt::format("{}.{}.", key, version) + std::string(700 + static_cast<std::size_t>(key % 600), 'v');
}

constexpr int kKeys = 60'000;
constexpr int kBatch = 500;

void set_all(RedisClient& redis, int version) {
  for (int first = 0; first < kKeys; first += kBatch) {
    for (int key = first; key < first + kBatch; ++key) {
      redis.send({"SET", fmt::format("key:{}", key), value_of(key, version)});
    }
    redis.flush();
    for (int i = 0; i < kBatch; ++i) ASSERT_EQ(redis.receive(), "OK");
  }
}

void verify_all(RedisClient& redis, int version) {
  for (int first = 0; first < kKeys; first += kBatch) {
    for (int key = first; key < first + kBatch; ++key) redis.send({"GET", fmt::format("key:{}", key)});
    redis.flush();
    for (int key = first; key < first + kBatch; ++key)
      ASSERT_EQ(redis.receive(), value_of(key, version)) << key;
  }
}

TEST(Preload, KeepsEveryValueOfARedisServerLargerThanItsLocalMemory) {
  const Folder folder;
  const int port = os::free_port().value().port();
  constexpr std::uint64_t kLocal = 32 << 20;
  os::Child server = start(folder, {"--far", "256MiB", "--local", "32MiB"},
                           {"redis-server", "--port", std::to_string(port), "--bind", "127.0.0.1", "--save",
                            "", "--dir", folder / ".", "--dbfilename", "dump.rdb"});
  RedisClient redis(port);
  ASSERT_EQ(redis.call({"PING"}), "PONG") << text_in(folder / "output");
  set_all(redis, 1);
  verify_all(redis, 1);
  EXPECT_LE(private_bytes(server.pid()), kLocal * 105 / 100);
  // A snapshot by a child, while every value changes.
  ASSERT_EQ(redis.call({"BGSAVE"}), "Background saving started");
  set_all(redis, 2);
  verify_all(redis, 2);
  const Deadline deadline = soon();
  while (redis.call({"INFO", "persistence"}).find("rdb_bgsave_in_progress:1") != std::string::npos &&
         !deadline.passed(kClock.now())) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  ASSERT_NE(redis.call({"INFO", "persistence"}).find("rdb_last_bgsave_status:ok"), std::string::npos);
  verify_all(redis, 2);
  EXPECT_LE(private_bytes(server.pid()), kLocal * 105 / 100);
  ASSERT_TRUE(server.kill(SIGTERM));
  ASSERT_TRUE(server.wait(soon()));
  EXPECT_GT(figure(folder / "stats", "fetched_pages"), 10'000u);

  // What the child wrote is what was there at the fork: a server without far memory reads it.
  os::Child plain =
      os::Child::spawn({.argv = {"redis-server", "--port", std::to_string(port), "--bind", "127.0.0.1",
                                 "--save", "", "--dir", folder / ".", "--logfile", folder / "log"}})
          .value();
  RedisClient reader(port);
  while (reader.call({"PING"}) != "PONG" && !soon().passed(kClock.now())) {
  }
  verify_all(reader, 1);
}

TEST(Preload, RefusesSizesThatCannotWork) {
  const Folder folder;
  EXPECT_FALSE(run(folder, {"--local", "1KiB"}, {"true"}).status.success());
  EXPECT_FALSE(run(folder, {"--local", "many"}, {"true"}).status.success());
  EXPECT_FALSE(run(folder, {"--far", "64MiB", "--node", "tcp://127.0.0.1:1"}, {"true"}).status.success());
  EXPECT_TRUE(run(folder, {"--far", "64MiB"}, {"true"}).status.success());
}

}  // namespace
}  // namespace yonder::e2e
