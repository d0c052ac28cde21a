// Several clients on threads of their own against a server with several pollers
// and workers, over shm and tcp, with a stop in the middle. Every call ends once,
// with its own answer or a typed error.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/fabric/shm/shm.h"
#include "yonder/fabric/tcp/tcp.h"
#include "yonder/rpc/client.h"
#include "yonder/rpc/server.h"
#include "yonder/rpc/suite/methods.h"
#include "yonder/sync/mutex.h"
#include "yonder/testing/seed.h"

namespace yonder::rpc::suite {
namespace {

using namespace std::chrono_literals;

std::unique_ptr<fabric::Fabric> open_shm() { return fabric::shm::open({}).value(); }
std::unique_ptr<fabric::Fabric> open_tcp() { return fabric::tcp::open().value(); }
std::string shm_address() { return "shm:rpc-stress-" + std::to_string(::getpid()); }
std::string tcp_address() { return "tcp://127.0.0.1:0"; }

struct Kind {
  const char* name;
  std::unique_ptr<fabric::Fabric> (*open)();
  std::string (*address)();
};
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

// Answers of Later, given by a thread that belongs to nobody.
class Answerer {
 public:
  Answerer() : thread_([this] { run(); }) {}
  ~Answerer() {
    stop_.store(true);
    thread_.join();
    run_once();
  }
  void add(std::uint64_t value, Responder<Later> responder) {
    sync::LockGuard lock(mutex_);
    waiting_.emplace_back(value, std::move(responder));
  }

 private:
  void run() {
    while (!stop_.load()) {
      run_once();
      std::this_thread::sleep_for(200us);
    }
  }
  void run_once() {
    std::vector<std::pair<std::uint64_t, Responder<Later>>> taken;
    {
      sync::LockGuard lock(mutex_);
      taken.swap(waiting_);
    }
    for (auto& [value, responder] : taken) std::move(responder).respond({value + 1});
  }

  sync::Mutex mutex_;
  std::vector<std::pair<std::uint64_t, Responder<Later>>> waiting_ YONDER_GUARDED_BY(mutex_);
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

class ServerStress : public ::testing::TestWithParam<Kind> {
 protected:
  static constexpr int kClients = 4;

  void SetUp() override {
    fabric_ = GetParam().open();
    auto server = Server::create(*fabric_, {.address = GetParam().address(),
                                            .pollers = 2,
                                            .workers = 2,
                                            .work_queue = 8,
                                            .credits = 8,
                                            .exchanges = 64,
                                            .max_connections = 16});
    ASSERT_TRUE(server) << server.error();
    server_ = *std::move(server);
    server_->handle<Echo>(
        [](const Context&, const Number& n) -> Result<Number> { return Number{n.value + 1}; });
    server_->handle<Slow>(
        [](const Context&, const Number& n) -> Result<Number> { return Number{n.value + 1}; },
        {.run = Run::kWorker});
    server_->handle<Later>([this](const Context&, const Number& n, Responder<Later> responder) {
      answerer_.add(n.value, std::move(responder));
    });
    ASSERT_TRUE(server_->start());
    address_ = server_->address();
  }

  // Calls until the server is gone or `limit` calls are done.
  void client_loop(std::uint64_t seed, int limit, Duration timeout) {
    const auto fabric = GetParam().open();
    const auto queue = fabric->create_completion_queue({}).value();
    auto client = Client::connect(*fabric, address_, *queue, {.default_timeout = timeout});
    ASSERT_TRUE(client) << client.error();
    Prng prng(seed);
    std::vector<Number> requests(20);
    std::vector<Result<Number>> results(20);
    for (int i = 0; i < limit; ++i) {
      const std::uint64_t value = prng();
      Result<Number> answer = Number{};
      switch (prng.below(4)) {
        case 0:
          answer = (*client)->call<Slow>({value}).wait();
          break;
        case 1:
          answer = (*client)->call<Later>({value}).wait();
          break;
        case 2:
          for (Number& request : requests) request.value = value;
          (*client)->call_many<Slow>(requests, results);
          for (const Result<Number>& result : results) {
            if (!count(value, result)) answer = result;
          }
          if (answer) continue;
          --ended_;  // Counted again below.
          break;
        default:
          answer = (*client)->call<Echo>({value}).wait();
      }
      if (!count(value, answer)) break;
    }
    (*client)->check_invariants();
  }

  // False if the server is going or gone.
  bool count(std::uint64_t value, const Result<Number>& answer) {
    ++ended_;
    if (answer) {
      EXPECT_EQ(answer->value, value + 1);
      ++answered_;
      return true;
    }
    const ErrorCode why = answer.error().code();
    EXPECT_TRUE(why == ErrorCode::kOverloaded || why == ErrorCode::kStopping ||
                why == ErrorCode::kConnectionLost || why == ErrorCode::kDeadlineExceeded)
        << answer.error();
    return why == ErrorCode::kOverloaded;
  }

  std::unique_ptr<fabric::Fabric> fabric_;
  Answerer answerer_;
  std::unique_ptr<Server> server_;
  std::string address_;
  std::atomic<std::uint64_t> ended_ = 0;
  std::atomic<std::uint64_t> answered_ = 0;
};

TEST_P(ServerStress, ManyClientsGetTheirOwnAnswers) {
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back(
        [this, i] { client_loop(testing::test_seed() + static_cast<std::uint64_t>(i), 100, 20s); });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_GE(ended_, kClients * 100u);
  EXPECT_GT(answered_, ended_ / 2);
  const Result<void> stopped = server_->stop(Deadline::after(fabric_->clock(), 20s));
  EXPECT_TRUE(stopped) << stopped.error();
}

TEST_P(ServerStress, AStopInTheMiddleEndsEveryCall) {
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i) {
    // A call that is made after the loss waits for another server until its time is up.
    clients.emplace_back(
        [this, i] { client_loop(testing::test_seed() + static_cast<std::uint64_t>(i), 1'000'000, 2s); });
  }
  while (answered_ < 200) std::this_thread::sleep_for(1ms);
  const Result<void> stopped = server_->stop(Deadline::after(fabric_->clock(), 20s));
  EXPECT_TRUE(stopped) << stopped.error();
  server_.reset();
  for (std::thread& client : clients) client.join();
  EXPECT_GE(ended_, answered_);
}

INSTANTIATE_TEST_SUITE_P(Providers, ServerStress,
                         ::testing::Values(Kind{"shm", open_shm, shm_address},
                                           Kind{"tcp", open_tcp, tcp_address}),
                         [](const auto& i) { return std::string(i.param.name); });

}  // namespace
}  // namespace yonder::rpc::suite
