// Two threads, each the proxy of its socket and a client of the other: on one machine
// with any number of sockets, over shared memory.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "yonder/fabric/testbed/shm_place.h"
#include "yonder/os/numa.h"
#include "yonder/remote/numa_router.h"
#include "yonder/testing/sanitizer.h"

namespace yonder::remote {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kBytes = 4096;
constexpr int kLanes = 8;

struct Thread {
  std::vector<std::byte> memory = std::vector<std::byte>(kBytes);
  fabric::Region region;
  std::unique_ptr<fabric::CompletionQueue> queue;
  std::unique_ptr<fabric::Endpoint> endpoint;
  std::unique_ptr<fabric::Scheduler> scheduler;
  std::unique_ptr<SocketProxy> proxy;
  std::uint64_t failed = 0;
};

// Adds to a word that only the other's proxy reaches.
Task<void> count_up(NumaRouter& router, std::uint32_t socket, RemoteAddress word, int times,
                    std::uint64_t& failed) {
  for (int i = 0; i < times; ++i) {
    const fabric::WorkRequest request{.op = fabric::Op::kFetchAdd, .remote = word, .operand = 1};
    const Result<fabric::Completion> done = co_await router.async_perform(socket, request);
    if (!done) ++failed;
  }
}

void run_thread(std::uint32_t self, const os::Numa& numa, std::vector<Thread>& threads,
                std::atomic<int>& finished, int times) {
  const int node = numa.nodes()[self % numa.node_count()];
  // A node without cores that we may use: then anywhere.
  (void)numa.pin_thread_to_node(node);
  Thread& own = threads[self];
  const std::uint32_t other = 1 - self;
  const Port port(*own.endpoint, *own.scheduler, 20s);
  own.scheduler->spawn(own.proxy->serve());
  std::vector<SocketProxy*> proxies = {threads[0].proxy.get(), threads[1].proxy.get()};
  proxies[self] = nullptr;
  NumaRouter router(port, {.socket = self, .proxies = proxies});
  const RemoteAddress word = threads[other].region.token().at(0);
  const auto work = [&]() -> Task<void> {
    for (int lane = 1; lane < kLanes; ++lane) {
      own.scheduler->spawn(count_up(router, other, word, times, own.failed));
    }
    co_await count_up(router, other, word, times, own.failed);
    while (router.stats().proxied < static_cast<std::uint64_t>(kLanes * times)) {
      co_await own.scheduler->sleep_for(100us);
    }
    ++finished;
    // The other needs our proxy until it is done as well.
    while (finished.load() < 2) co_await own.scheduler->sleep_for(100us);
    own.proxy->stop();
  };
  own.scheduler->spawn(work());
  EXPECT_TRUE(own.scheduler->run(Deadline::after(port.clock(), 60s)));
}

TEST(NumaRouterStress, TwoThreadsServeEachOther) {
  fabric::testbed::ShmPlace place("");
  const auto listener =
      place.server_fabric().listen({.address = place.listen_address(), .passive = true}).value();
  std::vector<Thread> threads(2);
  for (Thread& thread : threads) {
    thread.region = place.server_fabric()
                        .register_memory({.memory = thread.memory, .rights = fabric::Rights::kAll})
                        .value();
    thread.queue = place.client_fabric().create_completion_queue({}).value();
    thread.endpoint = place.client_fabric().connect({.address = listener->address()}, *thread.queue).value();
    thread.scheduler = std::make_unique<fabric::Scheduler>(*thread.queue);
    thread.proxy = std::make_unique<SocketProxy>(Port(*thread.endpoint, *thread.scheduler, 20s));
  }
  const int times = testing::scaled(200);
  std::atomic<int> finished{0};
  const os::Numa numa = os::Numa::read();
  std::thread first([&] { run_thread(0, numa, threads, finished, times); });
  std::thread second([&] { run_thread(1, numa, threads, finished, times); });
  first.join();
  second.join();
  for (Thread& thread : threads) {
    std::uint64_t counted = 0;
    std::memcpy(&counted, thread.memory.data(), sizeof counted);
    EXPECT_EQ(counted, static_cast<std::uint64_t>(kLanes * times));
    EXPECT_EQ(thread.failed, 0U);
    EXPECT_EQ(thread.proxy->served(), static_cast<std::uint64_t>(kLanes * times));
  }
  for (Thread& thread : threads) thread.endpoint.reset();
}

}  // namespace
}  // namespace yonder::remote
