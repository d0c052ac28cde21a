// Peers that misbehave, over real sockets: each is refused or dropped with a
// typed error, nobody else notices, and nothing leaks.
#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "yonder/fabric/tcp/internal/preface.h"
#include "yonder/fabric/tcp/internal/settings.h"
#include "yonder/fabric/tcp/internal/wire.h"
#include "yonder/fabric/tcp/tcp.h"
#include "yonder/os/socket.h"
#include "yonder/os/steady_clock.h"

namespace yonder::fabric::tcp {
namespace {

using std::chrono::milliseconds;

const os::SteadyClock kClock;
Deadline within(Duration duration) { return Deadline::after(kClock, duration); }
Deadline soon() { return within(std::chrono::seconds(10)); }

bool eventually(const std::function<bool()>& condition) {
  const Deadline deadline = soon();
  while (!condition()) {
    if (deadline.passed(kClock.now())) return false;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return true;
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  DIR* directory = ::opendir("/proc/self/fd");
  while (::readdir(directory) != nullptr) ++count;
  ::closedir(directory);
  return count;
}

// A passive target with short timeouts, and a client that must never notice what
// the others do.
class Hostile : public ::testing::Test {
 protected:
  Hostile()
      : memory_(1 << 20),
        target_(open({.handshake_timeout = milliseconds(300), .stall_timeout = milliseconds(500)}).value()),
        initiator_(open().value()),
        region_(target_->register_memory({.memory = memory_, .rights = Rights::kAll}).value()),
        listener_(target_->listen({.address = "tcp://127.0.0.1:0", .passive = true}).value()),
        queue_(initiator_->create_completion_queue({}).value()),
        bystander_(initiator_->connect({.address = listener_->address()}, *queue_).value()) {}

  void TearDown() override {
    expect_bystander_is_well();
    EXPECT_EQ(bystander_->state(), EndpointState::kOpen);
    EXPECT_TRUE(eventually([this] { return listener_->connection_count() == 1; }));
  }

  void expect_bystander_is_well() {
    std::uint64_t value = 0;
    const auto done = bystander_
                          ->read(LocalPiece::of(std::as_writable_bytes(std::span(&value, 1))),
                                 region_.token().at(0), soon())
                          .wait();
    ASSERT_TRUE(done) << done.error();
  }

  os::Socket connect_raw() {
    const auto settings = Settings::parse(listener_->address()).value();
    const auto addresses = os::SocketAddress::resolve(settings.host_port).value();
    return os::Socket::connect(addresses.front(), {}, soon()).value();
  }
  // A stream whose hand-shake is over.
  os::Socket connect_politely() {
    os::Socket socket = connect_raw();
    EXPECT_TRUE(socket.send_all(OpenerPreface{}.encode(), soon()));
    ListenerPreface::Encoded answer;
    EXPECT_TRUE(socket.receive_all(answer, soon()));
    EXPECT_EQ(ListenerPreface::decode(answer)->status, ErrorCode::kOk);
    return socket;
  }
  RequestHeader request(Op op, std::uint32_t length) const {
    return {.op = static_cast<std::uint8_t>(op),
            .id = 1,
            .length = length,
            .key = region_.token().key.value,
            .budget_ns = 1'000'000'000};
  }
  static void send(const os::Socket& socket, const RequestHeader& header) {
    ASSERT_TRUE(socket.send_all(std::as_bytes(std::span(&header, 1)), soon()));
  }
  // True if the target closes the connection in time, whatever it sends before.
  static bool is_closed_by_target(const os::Socket& socket) {
    std::vector<std::byte> ignored(1 << 16);
    for (;;) {
      const auto got = socket.receive_all(std::span(ignored).first(1), soon());
      if (!got) return got.error() != ErrorCode::kDeadlineExceeded;
    }
  }

  std::vector<std::byte> memory_;
  std::unique_ptr<Fabric> target_;
  std::unique_ptr<Fabric> initiator_;
  Region region_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<CompletionQueue> queue_;
  std::unique_ptr<Endpoint> bystander_;
};

TEST_F(Hostile, AStrangerIsTurnedAwayAtOnce) {
  const os::Socket socket = connect_raw();
  const std::string http = "GET / HTTP/1.1\r\n\r\n";
  ASSERT_TRUE(socket.send_all(std::as_bytes(std::span(http)), soon()));
  EXPECT_TRUE(is_closed_by_target(socket));
}

TEST_F(Hostile, AnotherVersionIsToldSo) {
  const os::Socket socket = connect_raw();
  OpenerPreface future;
  future.hello.min_version = 99;
  future.hello.max_version = 99;
  ASSERT_TRUE(socket.send_all(future.encode(), soon()));
  ListenerPreface::Encoded answer;
  ASSERT_TRUE(socket.receive_all(answer, soon()));
  EXPECT_EQ(ListenerPreface::decode(answer)->status, ErrorCode::kProtocolMismatch);
}

TEST_F(Hostile, ASilentHandshakeEndsAtItsDeadline) {
  const os::Socket silent = connect_raw();
  const os::Socket half = connect_raw();
  const OpenerPreface::Encoded preface = OpenerPreface{}.encode();
  ASSERT_TRUE(half.send_all(std::span(preface).first(30), soon()));
  EXPECT_TRUE(is_closed_by_target(silent));
  EXPECT_TRUE(is_closed_by_target(half));
}

TEST_F(Hostile, ATicketCannotBeGuessed) {
  const os::Socket socket = connect_raw();
  ASSERT_TRUE(
      socket.send_all(OpenerPreface{.role = StreamRole::kBackward, .ticket = 12345}.encode(), soon()));
  ListenerPreface::Encoded answer;
  ASSERT_TRUE(socket.receive_all(answer, soon()));
  EXPECT_EQ(ListenerPreface::decode(answer)->status, ErrorCode::kAuthenticationFailed);
}

TEST_F(Hostile, GarbageAfterTheHandshakeEndsThatConnection) {
  const os::Socket socket = connect_politely();
  const std::vector<std::byte> garbage(1000, std::byte{0x5a});
  ASSERT_TRUE(socket.send_all(garbage, soon()));
  EXPECT_TRUE(is_closed_by_target(socket));
}

TEST_F(Hostile, APeerThatVanishesInAFrameIsForgotten) {
  {
    const os::Socket socket = connect_politely();
    EXPECT_EQ(listener_->connection_count(), 2u);
    send(socket, request(Op::kWrite, 1000));
    ASSERT_TRUE(socket.send_all(std::vector<std::byte>(100), soon()));
  }
  EXPECT_TRUE(eventually([this] { return listener_->connection_count() == 1; }));
}

TEST_F(Hostile, AResetInTheMiddleIsForgotten) {
  {
    const os::Socket socket = connect_politely();
    send(socket, request(Op::kRead, 1 << 20));
    send(socket, request(Op::kWrite, 1 << 20));
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    ASSERT_EQ(::setsockopt(socket.fd().get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
  }
  EXPECT_TRUE(eventually([this] { return listener_->connection_count() == 1; }));
}

TEST_F(Hostile, APeerThatDoesNotReadIsDroppedAndHoldsUpNobody) {
  const os::Socket socket = connect_politely();
  ASSERT_TRUE(socket.set_receive_buffer(4096));
  for (int i = 0; i < 100; ++i) send(socket, request(Op::kRead, 1 << 20));
  for (int i = 0; i < 50; ++i) expect_bystander_is_well();
  EXPECT_TRUE(eventually([this] { return listener_->connection_count() == 1; }));
}

TEST_F(Hostile, AHeaderThatDripsInIsNotWaitedForForEver) {
  const os::Socket socket = connect_politely();
  const RequestHeader header = request(Op::kRead, 8);
  const auto bytes = std::as_bytes(std::span(&header, 1));
  // A byte every 50 ms: 72 of them would take 3.6 s, the patience is 0.5 s.
  bool dropped = false;
  for (std::size_t i = 0; i < bytes.size() - 1 && !dropped; ++i) {
    dropped = !socket.send_all(bytes.subspan(i, 1), soon());
    std::this_thread::sleep_for(milliseconds(50));
  }
  EXPECT_TRUE(dropped);
}

TEST_F(Hostile, NoBytesOutsideWhatWasGrantedCanBeReached) {
  // The region's neighbours in memory, by every way to say "somewhere else".
  const std::uint64_t size = memory_.size();
  for (const std::uint64_t offset :
       {size, size - 7, ~std::uint64_t{0}, ~std::uint64_t{7}, std::uint64_t{1} << 63}) {
    std::byte buffer[8];
    const auto read =
        bystander_->read(LocalPiece::of(std::span(buffer)), region_.token().at(offset), soon()).wait();
    ASSERT_FALSE(read) << offset;
    EXPECT_EQ(read.error(), ErrorCode::kOutOfBounds) << offset;
  }
}

TEST_F(Hostile, ManyBadPeersLeaveNoDescriptorsBehind) {
  expect_bystander_is_well();
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 50; ++i) {
    const os::Socket garbage = connect_raw();
    (void)garbage.send_all(std::vector<std::byte>(100, std::byte{1}), soon());
    const os::Socket rude = connect_politely();
    (void)rude.send_all(std::vector<std::byte>(100, std::byte{1}), soon());
    auto polite = initiator_->connect({.address = listener_->address()}, *queue_);
    ASSERT_TRUE(polite) << polite.error();
  }
  EXPECT_TRUE(eventually([&] { return open_descriptors() == before; }))
      << before << " " << open_descriptors();
}

TEST_F(Hostile, AThousandConnectionsAreServed) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  constexpr std::size_t kCount = 1000;
  const std::size_t before = open_descriptors();
  {
    auto queue = initiator_->create_completion_queue({.capacity = kCount}).value();
    std::vector<std::unique_ptr<Endpoint>> clients;
    for (std::size_t i = 0; i < kCount; ++i) {
      auto client = initiator_->connect(
          {.address = listener_->address(), .endpoint = {.depth = 1, .receive_depth = 0}}, *queue);
      ASSERT_TRUE(client) << i << ": " << client.error();
      clients.push_back(std::move(*client));
    }
    EXPECT_EQ(listener_->connection_count(), kCount + 1);
    for (const auto& client : clients) {
      const WorkRequest add{
          .op = Op::kFetchAdd, .remote = region_.token().at(0), .operand = 1, .deadline = soon()};
      ASSERT_EQ(client->post({&add, 1}).value_or(0), 1u);
    }
    std::vector<Completion> done(kCount);
    std::size_t count = 0;
    for (const Deadline end = soon(); count < kCount && !end.passed(kClock.now());) {
      const std::size_t got = queue->poll(std::span(done).subspan(count));
      if (got == 0) (void)queue->wait(end);
      count += got;
    }
    ASSERT_EQ(count, kCount);
    EXPECT_TRUE(std::ranges::all_of(done, [](const Completion& c) { return c.ok(); }));
    std::uint64_t sum = 0;
    std::memcpy(&sum, memory_.data(), 8);
    EXPECT_EQ(sum, kCount);
  }
  EXPECT_TRUE(eventually([&] { return open_descriptors() == before; }));
}

// ---------------------------------------------------------------- other processes

// Runs `body` in a child that was forked before this process had threads of ours,
// with a pipe from the parent; returns its pid.
struct Child {
  pid_t pid = -1;
  int to_child = -1;
  int from_child = -1;

  static Child start(const std::function<int(int in, int out)>& body) {
    int down[2], up[2];
    EXPECT_EQ(::pipe2(down, O_CLOEXEC), 0);
    EXPECT_EQ(::pipe2(up, O_CLOEXEC), 0);
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::close(down[1]);
      ::close(up[0]);
      ::_exit(body(down[0], up[1]));
    }
    ::close(down[0]);
    ::close(up[1]);
    return {.pid = pid, .to_child = down[1], .from_child = up[0]};
  }
  int finish() const {
    int status = 0;
    ::waitpid(pid, &status, 0);
    ::close(to_child);
    ::close(from_child);
    return status;
  }
};

void tell(int fd, const std::string& text) {
  ASSERT_EQ(::write(fd, text.data(), text.size()), std::ssize(text));
}
std::string hear(int fd) {
  char buffer[256];
  const ssize_t count = ::read(fd, buffer, sizeof buffer);
  return {buffer, count > 0 ? static_cast<std::size_t>(count) : 0};
}

TEST(Processes, AKilledInitiatorIsNoticedByItsTarget) {
  const Child child = Child::start([](int in, int out) {
    const std::string address = hear(in);
    auto fabric = open().value();
    auto queue = fabric->create_completion_queue({}).value();
    auto endpoint = fabric->connect({.address = address}, *queue).value();
    const auto token = RegionToken::decode(endpoint->greeting()).value();
    std::vector<std::byte> buffer(1 << 20);
    for (bool told = false;; told = true) {
      if (!endpoint->write(LocalPiece::of(std::span(buffer)), token.at(0), soon()).wait()) return 1;
      if (!told) (void)!::write(out, "x", 1);
    }
  });
  std::vector<std::byte> memory(1 << 20);
  auto fabric = open().value();
  auto region = fabric->register_memory({.memory = memory, .rights = Rights::kAll}).value();
  auto queue = fabric->create_completion_queue({}).value();
  std::vector<std::byte> greeting(RegionToken::kEncodedBytes);
  region.token().encode(std::span(greeting).first<RegionToken::kEncodedBytes>());
  auto listener =
      fabric
          ->listen({.address = "tcp://127.0.0.1:0", .greeting = greeting, .completion_queues = {queue.get()}})
          .value();
  tell(child.to_child, listener->address());
  auto endpoint = listener->accept(soon()).value();
  std::byte buffer[8];
  const ReceiveRequest receive{.user_data = 1, .buffer = LocalPiece::of(std::span(buffer))};
  ASSERT_TRUE(endpoint->post_receive({&receive, 1}));
  ASSERT_EQ(hear(child.from_child), "x");
  ASSERT_EQ(::kill(child.pid, SIGKILL), 0);
  Completion lost;
  const Deadline end = soon();
  while (queue->poll({&lost, 1}) == 0 && !end.passed(kClock.now())) (void)queue->wait(end);
  EXPECT_EQ(lost.status, ErrorCode::kConnectionLost);
  EXPECT_EQ(endpoint->state(), EndpointState::kBroken);
  EXPECT_TRUE(WIFSIGNALED(child.finish()));
}

TEST(Processes, AKilledTargetFailsWhatIsUnderWayAndTheNextOneIsFound) {
  const auto serve = [](int in, int out) {
    const std::string address = hear(in);
    std::vector<std::byte> memory(1 << 20);
    auto fabric = open().value();
    auto region = fabric->register_memory({.memory = memory, .rights = Rights::kAll}).value();
    std::vector<std::byte> greeting(RegionToken::kEncodedBytes);
    region.token().encode(std::span(greeting).first<RegionToken::kEncodedBytes>());
    auto listener = fabric->listen({.address = address, .greeting = greeting, .passive = true}).value();
    (void)!::write(out, listener->address().data(), listener->address().size());
    (void)hear(in);  // Until the parent is gone.
    return 0;
  };
  const Child first = Child::start(serve);
  const Child second = Child::start(serve);
  tell(first.to_child, "tcp://127.0.0.1:0");
  const std::string address = hear(first.from_child);
  auto fabric = open().value();
  auto queue = fabric->create_completion_queue({}).value();
  auto endpoint = fabric->connect({.address = address}, *queue).value();
  const auto token = RegionToken::decode(endpoint->greeting()).value();
  std::vector<std::byte> buffer(1 << 20);
  ASSERT_TRUE(endpoint->read(LocalPiece::of(std::span(buffer)), token.at(0), soon()).wait());
  ASSERT_EQ(::kill(first.pid, SIGSTOP), 0);
  // The signal is on its way: only a stopped target is sure not to answer.
  int status = 0;
  ASSERT_EQ(::waitpid(first.pid, &status, WUNTRACED), first.pid);
  ASSERT_TRUE(WIFSTOPPED(status));
  const LocalPiece piece = LocalPiece::of(std::span(buffer));
  const WorkRequest stuck{.user_data = 7, .local = {&piece, 1}, .remote = token.at(0), .deadline = soon()};
  ASSERT_TRUE(endpoint->post({&stuck, 1}));
  ASSERT_EQ(::kill(first.pid, SIGKILL), 0);
  Completion lost;
  const Deadline end = soon();
  while (queue->poll({&lost, 1}) == 0 && !end.passed(kClock.now())) (void)queue->wait(end);
  EXPECT_EQ(lost.user_data, 7u);
  EXPECT_EQ(lost.status, ErrorCode::kConnectionLost);
  EXPECT_EQ(endpoint->state(), EndpointState::kReconnecting);
  EXPECT_TRUE(WIFSIGNALED(first.finish()));
  // Another target at the same place: the endpoint finds it by itself.
  tell(second.to_child, address);
  EXPECT_EQ(hear(second.from_child), address);
  const auto refused = endpoint->read(LocalPiece::of(std::span(buffer).first(8)), token.at(0), soon()).wait();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), ErrorCode::kUnknownKey) << "the old key means nothing there";
  const auto fresh = RegionToken::decode(endpoint->greeting()).value();
  EXPECT_TRUE(endpoint->read(LocalPiece::of(std::span(buffer).first(8)), fresh.at(0), soon()).wait());
  ASSERT_EQ(::kill(second.pid, SIGKILL), 0);
  second.finish();
}

// In a child, because the limit is the whole process's.
int exhaust_descriptors() {
  std::vector<std::byte> memory(4096);
  auto fabric = open().value();
  auto region = fabric->register_memory({.memory = memory, .rights = Rights::kAll}).value();
  auto listener = fabric->listen({.address = "tcp://127.0.0.1:0", .passive = true}).value();
  auto queue = fabric->create_completion_queue({}).value();
  auto endpoint = fabric->connect({.address = listener->address()}, *queue).value();
  const auto place = os::SocketAddress::resolve(Settings::parse(listener->address())->host_port).value();
  const rlimit few{.rlim_cur = open_descriptors() + 20, .rlim_max = open_descriptors() + 20};
  if (::setrlimit(RLIMIT_NOFILE, &few) != 0) return 1;
  // Clients until there are no descriptors, for them or for the listener.
  std::vector<os::Socket> clients;
  for (;;) {
    auto client = os::Socket::connect(place.front(), {}, within(milliseconds(500)));
    if (!client) {
      if (client.error() != ErrorCode::kResourceExhausted) return 2;
      break;
    }
    clients.push_back(std::move(*client));
  }
  const auto refused =
      fabric->connect({.address = listener->address(), .connect_timeout = milliseconds(500)}, *queue);
  if (refused || refused.error() != ErrorCode::kResourceExhausted) return 3;
  if (!endpoint->fetch_add(region.token().at(0), 1, soon()).wait()) return 4;
  clients.clear();
  // Descriptors are back: so is the listener.
  for (const Deadline end = soon(); !end.passed(kClock.now());) {
    auto again =
        fabric->connect({.address = listener->address(), .connect_timeout = milliseconds(500)}, *queue);
    if (again) return (*again)->fetch_add(region.token().at(0), 1, soon()).wait() ? 0 : 5;
    std::this_thread::sleep_for(milliseconds(20));
  }
  return 6;
}

TEST(Processes, RunningOutOfDescriptorsIsSurvived) {
  const Child child = Child::start([](int, int) { return exhaust_descriptors(); });
  const int status = child.finish();
  ASSERT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace yonder::fabric::tcp
