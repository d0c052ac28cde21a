#pragma once
// What most tests on a simulated world start from: host 0 serves a region behind a
// passive listener, every other host has a client.
//
// Concurrency: one thread. Lifetime: the bed owns the world and all that was made.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "yonder/base/check.h"
#include "yonder/fabric/fabric.h"
#include "yonder/fabric/sim/world.h"

namespace yonder::fabric::sim {

struct TestClient {
  std::unique_ptr<CompletionQueue> queue;
  std::unique_ptr<Endpoint> endpoint;
};

struct TestBedOptions {
  WorldOptions world;
  std::size_t bytes = 64 * 1024;
  RegisterOptions region = {.rights = Rights::kAll};  // `memory` is set by the bed.
  ConnectOptions connect;                             // `address` is set by the bed.
};

class TestBed {
 public:
  explicit TestBed(const TestBedOptions& options = {})
      : world(options.world), connect_options_(options.connect), memory(options.bytes) {
    Fabric& target = world.host(0).fabric();
    RegisterOptions with_memory = options.region;
    if (with_memory.memory.empty()) with_memory.memory = memory;
    auto registered = target.register_memory(with_memory);
    YONDER_CHECK(registered.has_value(), "the test bed registers its memory");
    region = std::move(*registered);
    token = region.token();
    listen();
    for (std::uint32_t i = 1; i < world.host_count(); ++i) clients.push_back(connect(i));
  }

  void listen() {
    auto listening = world.host(0).fabric().listen({.address = "sim://:7400", .passive = true});
    YONDER_CHECK(listening.has_value(), "the test bed listens");
    listener = std::move(*listening);
  }

  TestClient connect(std::uint32_t host) { return connect(host, connect_options_); }
  TestClient connect(std::uint32_t host, ConnectOptions options) {
    Fabric& fabric = world.host(host).fabric();
    if (options.address.empty()) options.address = "sim://" + world.host(0).name() + ":7400";
    auto queue = fabric.create_completion_queue({.capacity = 4096});
    auto endpoint = fabric.connect(options, **queue);
    YONDER_CHECK(endpoint.has_value(), "the test bed connects");
    return {std::move(*queue), std::move(*endpoint)};
  }

  Endpoint& client(std::size_t i = 0) { return *clients[i].endpoint; }
  CompletionQueue& queue(std::size_t i = 0) { return *clients[i].queue; }
  Instant now() const { return world.clock().now(); }

  // How long one operation takes, in nanoseconds of virtual time.
  template <typename Start>
  double time_ns(Start start) {
    const Instant begin = now();
    const auto done = start().wait();
    YONDER_CHECK(done.has_value(), "the timed operation succeeds");
    return static_cast<double>((now() - begin).count());
  }

  // Millions of operations per virtual second with `depth` of them outstanding;
  // prepare(i) is the i-th request.
  template <typename Prepare>
  double mops(std::size_t count, std::size_t depth, Prepare prepare, std::size_t client_index = 0) {
    std::size_t posted = 0;
    std::size_t ended = 0;
    const Instant begin = now();
    while (ended < count) {
      while (posted < count && posted - ended < depth) {
        const WorkRequest request = prepare(posted);
        if (!client(client_index).post({&request, 1})) break;
        ++posted;
      }
      (void)queue(client_index).wait();
      Completion batch[64];
      const std::size_t got = queue(client_index).poll(batch);
      for (std::size_t i = 0; i < got; ++i) YONDER_CHECK(batch[i].ok(), "a measured operation succeeds");
      ended += got;
    }
    return static_cast<double>(count) * 1e3 / static_cast<double>((now() - begin).count());
  }

  World world;

 private:
  ConnectOptions connect_options_;

 public:
  std::vector<std::byte> memory;
  Region region;
  RegionToken token;
  std::unique_ptr<Listener> listener;
  std::vector<TestClient> clients;
};

}  // namespace yonder::fabric::sim
