// Two real processes: one dies in the middle of something, the other goes on.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <functional>

#include "yonder/fabric/shm/test_support.h"

namespace yonder::fabric::shm {
namespace {

constexpr std::size_t kBytes = 1 << 20;

// A child process, killed when the test ends. Forked before this process has any
// thread, so that it may use everything.
class Child {
 public:
  explicit Child(const std::function<void(int report)>& body) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) check_failed("pipe", __FILE__, __LINE__, "a pipe for a test");
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ends[0]);
      body(ends[1]);
      ::_exit(0);
    }
    ::close(ends[1]);
    report_ = ends[0];
  }
  ~Child() {
    kill();
    ::close(report_);
  }
  void resume() const { ::kill(pid_, SIGCONT); }
  // Returns when the child has stopped.
  void stop() const {
    ::kill(pid_, SIGSTOP);
    ::waitpid(pid_, nullptr, WUNTRACED);
  }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  // Waits for `size` bytes from the child.
  void hear(void* to, std::size_t size) const {
    ASSERT_EQ(::read(report_, to, size), static_cast<ssize_t>(size));
  }

 private:
  pid_t pid_ = -1;
  int report_ = -1;
};

void tell(int report, const void* from, std::size_t size) {
  if (::write(report, from, size) != static_cast<ssize_t>(size)) ::_exit(3);
}

struct Tokens {
  RegionToken direct;
  RegionToken served;
};

// A target that serves a memfd and plain memory until it is killed.
std::function<void(int)> target_at(const std::string& address) {
  return [address](int report) {
    auto fabric = must(open({}));
    const SharedMemory memory = SharedMemory::create(kBytes);
    auto heap = must(os::Mapping::anonymous({.bytes = kBytes}));
    std::memset(memory.bytes().data(), 0x42, kBytes);
    std::memset(heap.data(), 0x43, kBytes);
    Region direct = must(fabric->register_memory(
        {.memory = memory.bytes(), .rights = Rights::kAll, .backing = memory.backing()}));
    Region served = must(fabric->register_memory({.memory = heap.bytes(), .rights = Rights::kAll}));
    auto listener = must(fabric->listen({.address = address, .passive = true}));
    const Tokens tokens{direct.token(), served.token()};
    tell(report, &tokens, sizeof tokens);
    for (;;) ::pause();
  };
}

std::string fresh_address(const char* name) {
  return "shm:process-test-" + std::to_string(::getpid()) + "-" + name;
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  for (int fd = 0; fd < 4096; ++fd) count += ::fcntl(fd, F_GETFD) >= 0;
  return count;
}

std::size_t shm_mappings() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("memfd:") != std::string::npos;
  return count;
}

struct Client {
  std::unique_ptr<Fabric> fabric = must(open({}));
  std::unique_ptr<CompletionQueue> queue = must(fabric->create_completion_queue({}));
  std::unique_ptr<Endpoint> endpoint;

  explicit Client(const std::string& address, bool reconnect = true)
      : endpoint(must(fabric->connect({.address = address, .reconnect = reconnect}, *queue))) {}

  Result<Completion> read(RegionToken token, std::byte& into, std::uint64_t offset = 100) {
    return endpoint->read(LocalPiece{&into, 1}, token.at(offset), within()).wait();
  }
};

TEST(Process, ReadsTheMemoryOfAnotherProcess) {
  const std::string address = fresh_address("read");
  const Child target(target_at(address));
  Tokens tokens;
  target.hear(&tokens, sizeof tokens);
  Client client(address);
  std::byte byte{};
  ASSERT_TRUE(client.read(tokens.direct, byte));
  EXPECT_EQ(byte, std::byte{0x42});
  ASSERT_TRUE(client.read(tokens.served, byte));
  EXPECT_EQ(byte, std::byte{0x43});
  const auto first = client.endpoint->fetch_add(tokens.direct.at(0), 1, within()).wait();
  const auto second = client.endpoint->fetch_add(tokens.direct.at(0), 1, within()).wait();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(second->value, first->value + 1);
}

TEST(Process, ATargetKilledInTheMiddleLosesItsConnectionAndNothingElse) {
  const std::string address = fresh_address("killed");
  const std::string other_address = fresh_address("other");
  Child target(target_at(address));
  const Child other(target_at(other_address));
  Tokens tokens;
  Tokens other_tokens;
  target.hear(&tokens, sizeof tokens);
  other.hear(&other_tokens, sizeof other_tokens);
  const std::size_t descriptors = open_descriptors();
  const std::size_t mappings = shm_mappings();
  {
    Client client(address, false);
    auto well = must(client.fabric->connect({.address = other_address}, *client.queue));
    // Large served reads are under way when the target dies.
    std::vector<std::byte> buffers(8 * kBytes);
    std::vector<LocalPiece> pieces(8);
    std::vector<WorkRequest> requests(8);
    for (std::size_t i = 0; i < 8; ++i) {
      pieces[i] = LocalPiece::of(std::span(buffers).subspan(i * kBytes, kBytes));
      requests[i] = {.op = Op::kRead,
                     .user_data = i,
                     .local = {&pieces[i], 1},
                     .remote = tokens.served.at(0),
                     .deadline = within()};
    }
    ASSERT_EQ(client.endpoint->post(requests).value_or(0), 8u);
    target.kill();
    std::vector<int> seen(8);
    for (int got = 0; got < 8;) {
      Completion done;
      if (client.queue->poll({&done, 1}) == 0) {
        ASSERT_TRUE(client.queue->wait(within()));
        continue;
      }
      ++got;
      ++seen[done.user_data];
      EXPECT_TRUE(done.ok() || done.status == ErrorCode::kConnectionLost) << done.status;
    }
    EXPECT_EQ(seen, std::vector<int>(8, 1)) << "each completes exactly once";
    std::byte byte{};
    const auto late = client.read(tokens.direct, byte);
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error(), ErrorCode::kConnectionLost);
    EXPECT_EQ(client.endpoint->state(), EndpointState::kBroken);
    EXPECT_TRUE(well->read(LocalPiece{&byte, 1}, other_tokens.direct.at(0), within()).wait());
  }
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_EQ(shm_mappings(), mappings);
}

TEST(Process, AnInitiatorFindsTheNextTargetAtTheSameAddress) {
  const std::string address = fresh_address("again");
  int go[2];
  ASSERT_EQ(::pipe2(go, 0), 0);
  Child first(target_at(address));
  const Child second([&](int report) {
    char byte = 0;
    if (::read(go[0], &byte, 1) == 1) target_at(address)(report);
  });
  Tokens tokens;
  first.hear(&tokens, sizeof tokens);
  Client client(address);
  std::byte byte{};
  ASSERT_TRUE(client.read(tokens.direct, byte));
  first.kill();
  ASSERT_EQ(::write(go[1], "g", 1), 1);
  second.hear(&tokens, sizeof tokens);
  // The loss may not have been noticed yet; then the new key meets the old link.
  EXPECT_TRUE(eventually([&] { return client.read(tokens.direct, byte).has_value(); }));
  ::close(go[0]);
  ::close(go[1]);
}

TEST(Process, AnInitiatorKilledInTheMiddleDoesNotHoldUpARevocation) {
  const std::string address = fresh_address("client");
  int ends[2];
  ASSERT_EQ(::pipe2(ends, 0), 0);
  Child reader([&](int report) {
    RegionToken token;
    if (::read(ends[0], &token, sizeof token) != sizeof token) ::_exit(4);
    Client client(address);
    std::vector<std::byte> buffer(kBytes / 2);
    for (bool first = true;; first = false) {
      const auto done =
          client.endpoint->read(LocalPiece::of(std::span(buffer)), token.at(64), within()).wait();
      if (first) tell(report, "r", 1);
      if (!done) ::_exit(5);
    }
  });
  auto fabric = must(open({}));
  const SharedMemory memory = SharedMemory::create(kBytes);
  Region region = must(fabric->register_memory({.memory = memory.bytes(), .backing = memory.backing()}));
  auto listener = must(fabric->listen({.address = address, .passive = true}));
  const RegionToken token = region.token();
  ASSERT_EQ(::write(ends[1], &token, sizeof token), static_cast<ssize_t>(sizeof token));
  char ready = 0;
  reader.hear(&ready, 1);
  reader.kill();  // Almost surely inside a copy.
  const Instant start = os::SteadyClock::read();
  region.revoke();
  EXPECT_LT(os::SteadyClock::read() - start, std::chrono::seconds(10));
  EXPECT_TRUE(eventually([&] { return listener->connection_count() == 0; }));
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(Process, AStoppedTargetGivesADeadlineNotAHang) {
  const std::string address = fresh_address("stopped");
  Child target(target_at(address));
  Tokens tokens;
  target.hear(&tokens, sizeof tokens);
  Client client(address);
  std::byte byte{};
  ASSERT_TRUE(client.read(tokens.direct, byte));
  ASSERT_TRUE(client.read(tokens.served, byte));
  target.stop();
  const auto served =
      client.endpoint->read(LocalPiece{&byte, 1}, tokens.served.at(0), within(std::chrono::milliseconds(50)))
          .wait();
  ASSERT_FALSE(served);
  EXPECT_EQ(served.error(), ErrorCode::kDeadlineExceeded);
  // Direct memory needs no CPU of the target.
  byte = std::byte{0};
  target.resume();
  EXPECT_TRUE(client.read(tokens.direct, byte));
  EXPECT_EQ(byte, std::byte{0x42});
}

}  // namespace
}  // namespace yonder::fabric::shm
