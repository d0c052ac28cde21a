#pragma once
// Two servers in one process that share the keys: what one does not own it forwards to the
// other. Moving a partition is giving its range to the other store, as both see the same
// addresses.
//
// Concurrency: move() by one thread, the servers serve meanwhile. Lifetime: owns all.

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>

#include "yonder/cache/internal/test_service.h"
#include "yonder/cache/server.h"

namespace yonder::cache {

class TestCluster {
 public:
  struct Options {
    std::size_t partitions = 8;
    std::size_t memory_bytes = std::size_t{16} << 20;
    Duration peer_timeout = std::chrono::seconds(20);
  };

  TestCluster() : TestCluster(Options{}) {}
  explicit TestCluster(const Options& options) : partitions_(options.partitions) {
    static std::atomic<int> next{0};
    for (std::size_t i = 0; i < 2; ++i) {
      members_[i] = std::make_unique<TestService>(
          StoreOptions{.partitions = options.partitions, .memory_bytes = options.memory_bytes});
      const std::string name =
          "@rcached-cluster-" + std::to_string(::getpid()) + "-" + std::to_string(next++);
      servers_[i] = Server::create(members_[i]->service, {.listen = {{.address = name}},
                                                          .threads = 2,
                                                          .peers = {.timeout = options.peer_timeout}})
                        .value();
    }
    for (std::size_t i = 0; i < 2; ++i) store(i).set_self(address(i));
    // Each has made all of them: it keeps every second one, and forgets the rest.
    for (std::size_t i = 0; i < options.partitions; ++i) {
      const std::size_t owner = i % 2;
      EXPECT_TRUE(store(1 - owner).detach(i, address(owner)));
    }
  }

  Store& store(std::size_t member) { return *members_[member]->store; }
  Service& service(std::size_t member) { return members_[member]->service; }
  Server& server(std::size_t member) { return *servers_[member]; }
  std::string address(std::size_t member) const { return servers_[member]->addresses().front(); }
  void stop(std::size_t member) { servers_[member]->stop(Deadline::at(Instant::from_ns(1))); }

  // To the other member, with all its items.
  void move(std::size_t partition) {
    const std::size_t source = store(0).is_local(partition) ? 0 : 1;
    const std::size_t target = 1 - source;
    store(target).expect(partition);
    const auto range = store(source).detach(partition, address(target));
    ASSERT_TRUE(range);
    ASSERT_TRUE(store(target).attach(partition, *range));
  }
  // Some key of a partition.
  std::string key_in(std::size_t partition) const {
    for (int i = 0;; ++i) {
      std::string key = "key" + std::to_string(i);
      if (partition_of(hash_of(key), partitions_) == partition) return key;
    }
  }

 private:
  const std::size_t partitions_;
  std::array<std::unique_ptr<TestService>, 2> members_;
  std::array<std::unique_ptr<Server>, 2> servers_;
};

}  // namespace yonder::cache
