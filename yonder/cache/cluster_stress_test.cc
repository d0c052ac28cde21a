// Clients of two servers count while partitions move between them: each increment takes
// effect once, whoever the client asks, and no request fails.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/cache/internal/test_client.h"
#include "yonder/cache/internal/test_cluster.h"
#include "yonder/testing/sanitizer.h"
#include "yonder/testing/seed.h"

namespace yonder::cache {
namespace {

constexpr int kClients = 4;
constexpr int kCounters = 16;  // Of each client.

std::string counter(int client, std::uint64_t i) {
  return "c" + std::to_string(client) + ":" + std::to_string(i);
}

void count(TestCluster& cluster, int client, std::uint64_t steps, std::uint64_t seed) {
  Prng prng(seed);
  TestClient first(cluster.address(0));
  TestClient second(cluster.address(1));
  std::vector<std::uint64_t> expected(kCounters, 0);
  for (std::uint64_t i = 0; i < kCounters; ++i) {
    ASSERT_EQ(first.ask("set " + counter(client, i) + " 0 0 1\r\n0\r\n"), "STORED\r\n");
  }
  for (std::uint64_t step = 0; step < steps; ++step) {
    const std::uint64_t i = prng.below(kCounters);
    TestClient& connection = prng.chance(0.5) ? first : second;
    if (prng.chance(0.5)) {
      ASSERT_EQ(connection.ask("incr " + counter(client, i) + " 1\r\n"),
                std::to_string(++expected[i]) + "\r\n");
    } else {
      const std::string value = std::to_string(expected[i]);
      ASSERT_EQ(connection.ask("get " + counter(client, i) + "\r\n", "END\r\n"),
                "VALUE " + counter(client, i) + " 0 " + std::to_string(value.size()) + "\r\n" + value +
                    "\r\nEND\r\n");
    }
  }
}

TEST(ClusterStress, CountsOnceWhilePartitionsMove) {
  TestCluster cluster;
  std::atomic<int> running{kClients};
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back([&, i] {
      count(cluster, i, testing::scaled(4000u), testing::test_seed() + static_cast<std::uint64_t>(i));
      running.fetch_sub(1);
    });
  }
  Prng prng(testing::test_seed());
  int moves = 0;
  while (running.load() > 0) {
    ASSERT_NO_FATAL_FAILURE(cluster.move(prng.below(8)));
    ++moves;
    std::this_thread::sleep_for(std::chrono::microseconds(prng.below(2000)));
  }
  for (std::thread& client : clients) client.join();
  EXPECT_GT(moves, 10);
}

}  // namespace
}  // namespace yonder::cache
