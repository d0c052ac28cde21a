// The keeper and its clients, in one process: what it holds, for whom, and how much.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "yonder/node/internal/keeper_protocol.h"
#include "yonder/node/keeper_client.h"
#include "yonder/node/keeper_server.h"
#include "yonder/os/eventfd.h"
#include "yonder/os/fd_passing.h"
#include "yonder/os/memfd.h"
#include "yonder/os/steady_clock.h"

namespace yonder::node {
namespace {

const os::SteadyClock kClock;

// A keeper on a thread of its own.
class RunningKeeper {
 public:
  explicit RunningKeeper(const KeeperServer::Options& options)
      : stop_(os::EventFd::create().value()),
        server_(KeeperServer::create(options).value()),
        thread_([this] { EXPECT_TRUE(server_->serve(Deadline::never(), &stop_.fd())); }) {}
  ~RunningKeeper() {
    stop_.ring();
    thread_.join();
  }

 private:
  os::EventFd stop_;
  std::unique_ptr<KeeperServer> server_;
  std::thread thread_;
};

class KeeperTest : public ::testing::Test {
 protected:
  void SetUp() override {
    static int next = 0;
    options_.path = fmt::format("@yonder-keeper-test-{}-{}", ::getpid(), next++);
    keeper_.emplace(options_);
  }
  Result<std::unique_ptr<KeeperClient>> connect(const std::string& node = "node-1") {
    return KeeperClient::connect({.path = options_.path, .node = node, .timeout = std::chrono::seconds(30)});
  }
  static os::Memfd file(std::size_t pages) { return os::Memfd::create({.size = pages * 4096}).value(); }
  // The lease of a client that has gone ends when the keeper notices.
  std::unique_ptr<KeeperClient> connect_soon() {
    const Deadline deadline = Deadline::after(kClock, std::chrono::seconds(30));
    for (;;) {
      auto client = connect();
      if (client) return *std::move(client);
      EXPECT_EQ(client.error(), ErrorCode::kAlreadyExists);
      if (deadline.passed(kClock.now())) return nullptr;
      std::this_thread::yield();
    }
  }

  KeeperServer::Options options_;
  std::optional<RunningKeeper> keeper_;
};

TEST_F(KeeperTest, GivesBackWhatItWasGivenWhenItsOwnerIsGone) {
  {
    auto client = connect().value();
    EXPECT_TRUE(client->files().value().empty());
    ASSERT_TRUE(client->keep("a", file(1).fd()));
    ASSERT_TRUE(client->keep("b", file(2).fd()));
    ASSERT_TRUE(client->keep("a", file(3).fd())) << "in place of the first";
  }
  auto next = connect_soon();
  const auto files = next->files().value();
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].name, "a");
  EXPECT_EQ(os::Memfd::adopt(files[0].fd.duplicate().value()).value().size(), 3u * 4096);
  EXPECT_EQ(files[1].name, "b");
  ASSERT_TRUE(next->forget_all());
  EXPECT_TRUE(next->files().value().empty());
}

TEST_F(KeeperTest, HasOneClientPerNodeAtATime) {
  auto first = connect("node-1").value();
  EXPECT_EQ(connect("node-1").error(), ErrorCode::kAlreadyExists);
  auto other = connect("node-2");
  ASSERT_TRUE(other) << other.error();
  ASSERT_TRUE((*other)->keep("a", file(1).fd()));
  EXPECT_TRUE(first->files().value().empty()) << "each sees its own";
}

TEST_F(KeeperTest, HoldsNoMoreThanItMay) {
  keeper_.reset();
  options_.max_files = 2;
  options_.max_clients = 1;
  keeper_.emplace(options_);
  auto client = connect().value();
  ASSERT_TRUE(client->keep("a", file(1).fd()));
  ASSERT_TRUE(client->keep("b", file(1).fd()));
  EXPECT_EQ(client->keep("c", file(1).fd()).error(), ErrorCode::kResourceExhausted);
  EXPECT_TRUE(client->keep("b", file(1).fd())) << "one for one";
  EXPECT_EQ(connect("node-2").error(), ErrorCode::kConnectionLost) << "one client too many";
}

TEST_F(KeeperTest, GetsEverythingAgainAfterItsOwnEnd) {
  auto client = connect().value();
  ASSERT_TRUE(client->keep("record", file(1).fd()));
  ASSERT_TRUE(client->keep("a", file(2).fd()));
  EXPECT_TRUE(client->refresh()) << "nothing to do";
  keeper_.reset();
  EXPECT_FALSE(client->keep("b", file(1).fd()));
  EXPECT_EQ(client->refresh().error(), ErrorCode::kConnectionRefused);
  keeper_.emplace(options_);
  ASSERT_TRUE(client->refresh());
  const auto files = client->files().value();
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].name, "a");
  EXPECT_EQ(files[1].name, "record") << "last";
}

TEST_F(KeeperTest, EndsConnectionsThatSendNonsense) {
  const auto address = os::SocketAddress::unix_name(options_.path).value();
  const Deadline deadline = Deadline::after(kClock, std::chrono::seconds(30));
  const auto is_closed_after = [&](std::span<const std::byte> bytes, std::size_t files) {
    const os::Socket socket =
        os::Socket::connect(address, {.kind = os::SocketKind::kSeqpacket}, deadline).value();
    const os::Memfd memory = file(1);
    const int raw[] = {memory.fd().get(), memory.fd().get(), memory.fd().get()};
    EXPECT_TRUE(os::send_with_fds(socket, bytes, std::span(raw, files), deadline));
    internal::KeeperAnswer answer;
    const auto received = os::receive_with_fds(socket, internal::bytes_of(answer), 1, deadline);
    return !received && received.error() == ErrorCode::kConnectionLost;
  };
  internal::KeeperRequest request{.node = internal::to_name("x")};
  EXPECT_TRUE(is_closed_after(internal::bytes_of(request).first(10), 0)) << "short";
  EXPECT_TRUE(is_closed_after(internal::bytes_of(request), 3)) << "too many descriptors";
  request.magic = 7;
  EXPECT_TRUE(is_closed_after(internal::bytes_of(request), 0)) << "another protocol";
  EXPECT_TRUE(connect()) << "and goes on with the others";
}

TEST_F(KeeperTest, AnswersWhatMakesNoSenseWithAnError) {
  EXPECT_EQ(connect("").error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(connect(std::string(64, 'x')).error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(connect().value()->keep("", file(1).fd()).error(), ErrorCode::kInvalidArgument);
}

TEST(KeeperServer, ReplacesASocketFileOnlyIfNobodyListensThere) {
  std::string directory = "/tmp/yonder-keeper-XXXXXX";
  ASSERT_NE(::mkdtemp(directory.data()), nullptr);
  const std::string path = directory + "/keeper";
  auto first = KeeperServer::create({.path = path}).value();
  struct stat status{};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777u, 0600u) << "nobody else may even ask";
  EXPECT_EQ(KeeperServer::create({.path = path}).error(), ErrorCode::kAlreadyExists);
  first.reset();
  {
    // What a keeper that was killed leaves.
    const auto address = os::SocketAddress::unix_name(path).value();
    const auto stale = os::Socket::listen(address, {.kind = os::SocketKind::kSeqpacket});
    ASSERT_TRUE(stale);
  }
  EXPECT_TRUE(KeeperServer::create({.path = path}));
  ::rmdir(directory.c_str());
}

}  // namespace
}  // namespace yonder::node
