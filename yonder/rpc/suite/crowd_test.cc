// Many connections with few threads, and clients that die without a word.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "yonder/fabric/shm/shm.h"
#include "yonder/fabric/tcp/tcp.h"
#include "yonder/rpc/client.h"
#include "yonder/rpc/server.h"
#include "yonder/rpc/suite/methods.h"

namespace yonder::rpc::suite {
namespace {

using namespace std::chrono_literals;

Result<std::unique_ptr<Server>> make_server(fabric::Fabric& fabric, const std::string& address,
                                            std::uint32_t max_connections) {
  YONDER_TRY(server, Server::create(fabric, {.address = address,
                                             .credits = 4,
                                             .max_request = 64,
                                             .max_response = 64,
                                             .max_connections = max_connections}));
  server->handle<Echo>([](const Context&, const Number& n) -> Result<Number> { return n; });
  YONDER_TRY_VOID(server->start());
  return server;
}

template <typename F>
bool eventually(F&& done) {
  for (int i = 0; i < 10'000; ++i) {
    if (done()) return true;
    std::this_thread::sleep_for(1ms);
  }
  return false;
}

TEST(Crowd, AThousandConnectionsAreServedByOnePoller) {
  constexpr std::uint32_t kConnections = 1000;
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  // Each connection is up to two sockets, and both of their ends are here.
  if (limit.rlim_cur < kConnections * 4 + 100) GTEST_SKIP() << "not enough descriptors: " << limit.rlim_cur;
  const auto server_fabric = fabric::tcp::open().value();
  const auto client_fabric = fabric::tcp::open().value();
  auto server = make_server(*server_fabric, "tcp://127.0.0.1:0", kConnections + 8);
  ASSERT_TRUE(server) << server.error();
  const auto queue = client_fabric->create_completion_queue({.capacity = 64 * 1024}).value();
  std::vector<ClientPtr> clients;
  for (std::uint32_t i = 0; i < kConnections; ++i) {
    auto client = Client::connect(*client_fabric, (*server)->address(), *queue,
                                  {.max_outstanding = 4, .max_response = 64, .default_timeout = 20s});
    ASSERT_TRUE(client) << client.error() << " of number " << i;
    clients.push_back(*std::move(client));
  }
  for (std::uint32_t i = 0; i < kConnections; ++i) {
    const Result<Number> answer = clients[i]->call<Echo>({.value = i}).wait();
    ASSERT_TRUE(answer) << answer.error() << " of number " << i;
    EXPECT_EQ(answer->value, i);
  }
  EXPECT_EQ((*server)->stats().connections, kConnections);
  clients.clear();
  EXPECT_TRUE(eventually([&] { return (*server)->stats().connections == 0; }))
      << (*server)->stats().connections;
}

// A client in a process of its own: reads the address, calls until it is killed.
[[noreturn]] void call_for_ever(bool shm, int address_from, int ready) {
  char address[256] = {};
  if (::read(address_from, address, sizeof address - 1) <= 0) ::_exit(4);
  const auto fabric = shm ? fabric::shm::open({}).value() : fabric::tcp::open().value();
  const auto queue = fabric->create_completion_queue({}).value();
  auto client = Client::connect(*fabric, address, *queue, {.max_outstanding = 4, .max_response = 64});
  if (!client) ::_exit(1);
  for (std::uint64_t i = 0;; ++i) {
    if (!(*client)->call<Echo>({.value = i}).wait()) ::_exit(2);
    if (i == 10 && ::write(ready, "x", 1) != 1) ::_exit(3);
  }
}

class KilledClient : public ::testing::TestWithParam<bool> {};

TEST_P(KilledClient, IsForgottenAndOthersDoNotNotice) {
  const bool shm = GetParam();
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  int address_pipe[2];
  ASSERT_EQ(::pipe(address_pipe), 0);
  // Forked while this process has no other threads.
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) call_for_ever(shm, address_pipe[0], ready[1]);
  ::close(ready[1]);  // So that the end of the child is seen.
  const auto fabric = shm ? fabric::shm::open({}).value() : fabric::tcp::open().value();
  const std::string wanted = shm ? "shm:rpc-killed-" + std::to_string(::getpid()) : "tcp://127.0.0.1:0";
  auto server = make_server(*fabric, wanted, 8);
  ASSERT_TRUE(server) << server.error();
  const auto good_fabric = shm ? fabric::shm::open({}).value() : fabric::tcp::open().value();
  const auto good_queue = good_fabric->create_completion_queue({}).value();
  auto good = Client::connect(*good_fabric, (*server)->address(), *good_queue,
                              {.max_outstanding = 4, .max_response = 64});
  ASSERT_TRUE(good) << good.error();
  const std::string address = (*server)->address();
  ASSERT_EQ(::write(address_pipe[1], address.data(), address.size()), static_cast<ssize_t>(address.size()));
  char mark = 0;
  ASSERT_EQ(::read(ready[0], &mark, 1), 1) << "the caller is in the middle of its calls";
  ASSERT_TRUE((*good)->call<Echo>({.value = 1}).wait());
  EXPECT_EQ((*server)->stats().connections, 2u);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ::waitpid(child, nullptr, 0);
  for (std::uint64_t i = 0; i < 50; ++i) {
    const Result<Number> answer = (*good)->call<Echo>({.value = i}).wait();
    ASSERT_TRUE(answer) << answer.error();
  }
  EXPECT_TRUE(eventually([&] { return (*server)->stats().connections == 1; }));
  good->reset();
  for (const int fd : {ready[0], address_pipe[0], address_pipe[1]}) ::close(fd);
}

INSTANTIATE_TEST_SUITE_P(Providers, KilledClient, ::testing::Bool(),
                         [](const auto& i) { return i.param ? "shm" : "tcp"; });

}  // namespace
}  // namespace yonder::rpc::suite
