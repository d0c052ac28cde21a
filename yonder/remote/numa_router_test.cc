// Requests between matching sockets, on simulated hosts with two sockets and a NIC on
// each.
#include "yonder/remote/numa_router.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "yonder/fabric/sim/world.h"

namespace yonder::remote {
namespace {

using namespace std::chrono_literals;
using fabric::sim::World;

constexpr std::size_t kBytes = 64 * 1024;

struct Side {
  std::vector<std::byte> memory = std::vector<std::byte>(kBytes);
  fabric::Region region;
  std::unique_ptr<fabric::Listener> listener;
  std::unique_ptr<fabric::CompletionQueue> queue;
  std::unique_ptr<fabric::Endpoint> endpoint;
};

// Two hosts of two sockets; side i is everything on socket i. One scheduler for all.
class NumaBed {
 public:
  NumaBed() : world({.hosts = 2, .host = {.sockets = 2, .nics = {{.socket = 0}, {.socket = 1}}}}) {
    for (std::uint32_t i = 0; i < 2; ++i) {
      const fabric::sim::Placement place{.socket = i, .memory_socket = i, .nic = i};
      world.host(0).place(place);
      world.host(1).place(place);
      Side& side = sides[i];
      fabric::Fabric& target = world.host(0).fabric();
      side.region = target.register_memory({.memory = side.memory, .rights = fabric::Rights::kAll}).value();
      const std::string address = "sim://host0:" + std::to_string(7400 + i) + "?nic=" + std::to_string(i);
      side.listener = target.listen({.address = address, .passive = true}).value();
      fabric::Fabric& client = world.host(1).fabric();
      side.queue = client.create_completion_queue({}).value();
      side.endpoint = client.connect({.address = side.listener->address()}, *side.queue).value();
    }
    scheduler = std::make_unique<fabric::Scheduler>(*sides[0].queue);
  }
  ~NumaBed() {
    for (Side& side : sides) side.endpoint.reset();
  }
  Port port(std::uint32_t socket) { return {*sides[socket].endpoint, *scheduler}; }
  RemoteAddress at(std::uint32_t socket, std::uint64_t offset) {
    return sides[socket].region.token().at(offset);
  }

  World world;
  Side sides[2];
  std::unique_ptr<fabric::Scheduler> scheduler;
};

Task<void> write_both(NumaRouter& router, NumaBed& bed, std::span<const std::byte> bytes, Result<void>& near,
                      Result<void>& far) {
  near = co_await router.async_write(0, LocalPiece::of(bytes), bed.at(0, 64));
  far = co_await router.async_write(1, LocalPiece::of(bytes), bed.at(1, 128));
}

TEST(NumaRouter, SendsRequestsToTheirSocket) {
  NumaBed bed;
  SocketProxy proxy(bed.port(1));
  bed.scheduler->spawn(proxy.serve());
  NumaRouter router(bed.port(0), {.socket = 0, .proxies = {nullptr, &proxy}});
  const std::vector<std::byte> bytes(32, std::byte{7});
  Result<void> near;
  Result<void> far;
  bed.port(0).run([](Task<void> task) -> Task<bool> {
    co_await std::move(task);
    co_return true;
  }(write_both(router, bed, bytes, near, far)));
  EXPECT_TRUE(near);
  EXPECT_TRUE(far);
  EXPECT_EQ(bed.sides[0].memory[64], std::byte{7});
  EXPECT_EQ(bed.sides[1].memory[128], std::byte{7});
  EXPECT_EQ(router.stats().direct, 1U);
  EXPECT_EQ(router.stats().proxied, 1U);
  EXPECT_EQ(proxy.served(), 1U);
  proxy.stop();
  EXPECT_TRUE(bed.scheduler->run(Deadline::after(bed.world.clock(), 1s)));
}

TEST(NumaRouter, WithOneSocketNothingIsInBetween) {
  NumaBed bed;
  NumaRouter router(bed.port(0), {});
  std::byte byte{1};
  const Instant begin = bed.world.clock().now();
  EXPECT_TRUE(bed.port(0).run(router.async_write(0, LocalPiece{&byte, 1}, bed.at(0, 0))));
  const Duration routed = bed.world.clock().now() - begin;
  const Instant again = bed.world.clock().now();
  EXPECT_TRUE(bed.port(0).write(LocalPiece{&byte, 1}, bed.at(0, 0)));
  // The first write fills the NICs' caches: the routed one is measured again.
  const Duration plain = bed.world.clock().now() - again;
  const Instant last = bed.world.clock().now();
  EXPECT_TRUE(bed.port(0).run(router.async_write(0, LocalPiece{&byte, 1}, bed.at(0, 0))));
  // To the nanosecond that a clock may be rounded by.
  EXPECT_LE((bed.world.clock().now() - last - plain).count(), 1);
  EXPECT_GE(routed, plain);
  EXPECT_EQ(router.stats().direct, 2U);
}

Task<void> write_many(NumaRouter& router, NumaBed& bed, int count, int& done, ErrorCode& worst) {
  std::byte byte{1};
  for (int i = 0; i < count; ++i) {
    const Result<void> written = co_await router.async_write(1, LocalPiece{&byte, 1}, bed.at(1, 0));
    if (written) ++done;
    if (!written) worst = written.error().code();
  }
}

TEST(NumaRouter, ManyCallsShareAShortQueue) {
  NumaBed bed;
  SocketProxy proxy(bed.port(1), {.capacity = 2});
  bed.scheduler->spawn(proxy.serve());
  NumaRouter router(bed.port(0), {.proxies = {nullptr, &proxy}, .max_outstanding = 4});
  int done = 0;
  ErrorCode worst = ErrorCode::kOk;
  const auto all = [&]() -> Task<void> {
    for (int i = 0; i < 10; ++i) bed.scheduler->spawn(write_many(router, bed, 20, done, worst));
    while (done < 200 && worst == ErrorCode::kOk) co_await bed.scheduler->sleep_for(1us);
    proxy.stop();
  };
  bed.scheduler->spawn(all());
  EXPECT_TRUE(bed.scheduler->run(Deadline::after(bed.world.clock(), 1s)));
  EXPECT_EQ(done, 200);
  EXPECT_EQ(worst, ErrorCode::kOk);
}

TEST(NumaRouter, AProxyThatWasStoppedRefuses) {
  NumaBed bed;
  SocketProxy proxy(bed.port(1));
  bed.scheduler->spawn(proxy.serve());
  proxy.stop();
  NumaRouter router(bed.port(0), {.proxies = {nullptr, &proxy}});
  std::byte byte{1};
  EXPECT_EQ(bed.port(0).run(router.async_write(1, LocalPiece{&byte, 1}, bed.at(1, 0))).error(),
            ErrorCode::kClosed);
  EXPECT_EQ(bed.port(0).run(router.async_write(2, LocalPiece{&byte, 1}, bed.at(1, 0))).error(),
            ErrorCode::kNotFound);
  EXPECT_TRUE(bed.scheduler->run(Deadline::after(bed.world.clock(), 1s)));
}

TEST(NumaRouter, WithoutAThreadToServeTheDeadlineEndsTheWait) {
  NumaBed bed;
  SocketProxy proxy(bed.port(1), {.capacity = 2});
  NumaRouter router(bed.port(0), {.proxies = {nullptr, &proxy}});
  std::byte byte{1};
  Result<void> outcomes[3];
  const auto call = [&](Result<void>& outcome) -> Task<void> {
    outcome = co_await router.async_write(1, LocalPiece{&byte, 1}, bed.at(1, 0),
                                          Deadline::after(bed.world.clock(), 50us));
  };
  for (Result<void>& outcome : outcomes) {
    outcome = {};
    bed.scheduler->spawn(call(outcome));
  }
  // Two have a place; the third finds none in time.
  bed.scheduler->spawn([](NumaBed& where, SocketProxy& late) -> Task<void> {
    co_await where.scheduler->sleep_for(100us);
    late.stop();
    co_await late.serve();
  }(bed, proxy));
  EXPECT_TRUE(bed.scheduler->run(Deadline::after(bed.world.clock(), 1s)));
  EXPECT_EQ(outcomes[0].error(), ErrorCode::kClosed);
  EXPECT_EQ(outcomes[1].error(), ErrorCode::kClosed);
  EXPECT_EQ(outcomes[2].error(), ErrorCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace yonder::remote
