// The server by itself: options, threads, statistics, compaction, the end. What it
// answers is tested with a client (client/suite).
#include "yonder/node/server.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "yonder/fabric/shm/shm.h"
#include "yonder/fabric/tcp/tcp.h"
#include "yonder/os/steady_clock.h"
#include "yonder/telemetry/counters.h"

namespace yonder::node {
namespace {

const os::SteadyClock kClock;

NodeOptions options_on(fabric::Fabric& fabric, const char* address) {
  NodeOptions options;
  options.ports = {{.fabric = &fabric, .address = address}};
  options.heap.limit = Bytes(64 << 20);
  return options;
}

ErrorCode error_of(const NodeOptions& options) {
  const auto server = Server::create(options);
  return server ? ErrorCode::kOk : server.error().code();
}

// Leaves every fifth of many objects.
void fragment(HeapThread& thread) {
  std::vector<ObjectPtr> objects;
  for (int i = 0; i < 20'000; ++i) objects.push_back(thread.alloc(200).value());
  for (std::size_t i = 0; i < objects.size(); ++i) {
    if (i % 5 == 0) continue;
    ASSERT_TRUE(thread.free(objects[i]));
  }
}

TEST(NodeServer, RefusesOptionsThatMakeNoSense) {
  const auto shm = fabric::shm::open({}).value();
  EXPECT_EQ(error_of({}), ErrorCode::kInvalidArgument) << "no port";
  NodeOptions options = options_on(*shm, "shm:");
  EXPECT_EQ(error_of(options), ErrorCode::kOk);
  options.validator = Validator::kLines;
  EXPECT_EQ(error_of(options), ErrorCode::kInvalidArgument) << "lines prove nothing on shm";
  options = options_on(*shm, "shm:");
  options.ports.push_back(options.ports[0]);
  EXPECT_EQ(error_of(options), ErrorCode::kInvalidArgument) << "one fabric twice";
  options = options_on(*shm, "shm:");
  options.max_data = 1;
  EXPECT_EQ(error_of(options), ErrorCode::kInvalidArgument);
  options = options_on(*shm, "shm:");
  options.heap.limit = Bytes(0);
  EXPECT_EQ(error_of(options), ErrorCode::kInvalidArgument);
  options = options_on(*shm, "shm:");
  options.heap.superblock = Bytes((std::uint64_t{64} << 20) + 4096);
  options.validator = Validator::kChecksum;
  EXPECT_EQ(error_of(options), ErrorCode::kOk) << "64 MiB and what a checksum adds";
  options = options_on(*shm, "no-address");
  EXPECT_EQ(error_of(options), ErrorCode::kAddressInvalid);
}

TEST(NodeServer, ChoosesAValidatorThatHoldsOnAllItsPorts) {
  const auto shm = fabric::shm::open({}).value();
  const auto tcp = fabric::tcp::open().value();
  NodeOptions options = options_on(*shm, "shm:");
  EXPECT_EQ(Server::create(options).value()->heap().classes().validator(), Validator::kReread);
  options.ports.push_back({.fabric = tcp.get(), .address = "tcp://127.0.0.1:0"});
  const auto both = Server::create(options).value();
  EXPECT_EQ(both->heap().classes().validator(), Validator::kChecksum);
  EXPECT_TRUE(both->address(0).starts_with("shm:"));
  EXPECT_TRUE(both->address(1).starts_with("tcp://"));
}

TEST(NodeServer, CompactsByItselfWhenAClassIsFragmented) {
  const auto shm = fabric::shm::open({}).value();
  telemetry::Registry registry;
  NodeOptions options = options_on(*shm, "shm:");
  options.compaction.min_waste_bytes = 64 << 10;
  options.compaction.interval = std::chrono::milliseconds(1);
  options.registry = &registry;
  const auto server = Server::create(options).value();
  HeapThread thread = server->heap().register_thread().value();
  fragment(thread);
  const Deadline deadline = Deadline::after(kClock, std::chrono::seconds(20));
  while (server->stats().compaction.frames_freed == 0 && !deadline.passed(kClock.now())) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_GT(server->stats().compaction.frames_freed, 0u);
  const auto gauge = [&](const char* name) -> std::int64_t {
    for (const telemetry::MetricValue& metric : registry.snapshot()) {
      if (metric.name == name) return metric.gauge;
    }
    return -1;
  };
  // Gauges are published between slices: they may be of before the last free, or of before the run was over.
  const auto is_told = [&] {
    return gauge("yonder_node_compaction_runs") > 0 && gauge("yonder_node_live_objects") == 4000;
  };
  while (!is_told() && !deadline.passed(kClock.now())) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_GT(gauge("yonder_node_compaction_runs"), 0);
  EXPECT_EQ(gauge("yonder_node_live_objects"), 4000);
}

TEST(NodeServer, CompactsWhenAskedAndNotOtherwiseIfTold) {
  const auto shm = fabric::shm::open({}).value();
  NodeOptions options = options_on(*shm, "shm:");
  options.compaction.automatic = false;
  options.compaction.interval = std::chrono::milliseconds(1);
  const auto server = Server::create(options).value();
  HeapThread thread = server->heap().register_thread().value();
  fragment(thread);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(server->stats().compaction.runs, 0u);
  EXPECT_GT(server->compact(), 0u);
  // And by itself again, after a change of policy.
  fragment(thread);
  CompactionPolicy policy = server->compaction_policy();
  policy.automatic = true;
  policy.min_waste_bytes = 64 << 10;
  const std::uint64_t before = server->stats().compaction.frames_freed;
  server->set_compaction_policy(policy);
  const Deadline deadline = Deadline::after(kClock, std::chrono::seconds(20));
  while (server->stats().compaction.frames_freed == before && !deadline.passed(kClock.now())) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_GT(server->stats().compaction.frames_freed, before);
}

TEST(NodeServer, StopsInTheMiddleOfCompactionWithAllObjectsInPlace) {
  const auto shm = fabric::shm::open({}).value();
  NodeOptions options = options_on(*shm, "shm:");
  options.compaction.min_waste_bytes = 0;
  options.compaction.interval = std::chrono::microseconds(10);
  options.compaction.slice = {.blocks = 1, .time = std::chrono::microseconds(1)};
  for (int round = 0; round < 3; ++round) {
    const auto server = Server::create(options).value();
    {
      HeapThread thread = server->heap().register_thread().value();
      fragment(thread);
    }
    const Deadline deadline = Deadline::after(kClock, std::chrono::seconds(20));
    while (server->stats().compaction.blocks_moved < 10 && !deadline.passed(kClock.now())) {
    }
    EXPECT_TRUE(server->stop(Deadline::after(kClock, std::chrono::seconds(10))));
    EXPECT_TRUE(server->stopped());
    EXPECT_TRUE(server->stop(Deadline::after(kClock, std::chrono::seconds(1)))) << "idempotent";
    server->heap().check_invariants();
    std::uint64_t live = 0;
    for (const ClassStats& stats : server->stats().heap.classes) live += stats.live;
    EXPECT_EQ(live, 4000u);
  }
}

}  // namespace
}  // namespace yonder::node
