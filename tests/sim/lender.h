#pragma once
// A simulated cluster in which host 0 lends memory and the others work in it one-sidedly,
// while messages are lost, connections break and workers die: what the fault tests of the
// structures have in common. Host 1 never crashes: the scheduler's queue is there, and
// somebody must see the end.
//
// Concurrency: one thread. Lifetime: what uses its clients goes before it.

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/fabric/scheduler.h"
#include "yonder/fabric/sim/world.h"
#include "yonder/remote/port.h"
#include "yonder/testing/effort.h"
#include "yonder/testing/sanitizer.h"
#include "yonder/testing/seed.h"

namespace yonder {

struct FaultMix {
  double max_loss = 0.05;
  double max_delay = 0.5;
  double max_completion_error = 0;
  double max_connection_break = 0.02;
};

class Lender {
 public:
  Lender(std::uint64_t seed, std::uint32_t hosts, std::uint64_t bytes)
      : world_({.seed = seed, .hosts = hosts}), memory_(bytes / 8) {
    fabric::Fabric& lender = world_.host(0).fabric();
    region_ = lender
                  .register_memory(
                      {.memory = std::as_writable_bytes(std::span(memory_)), .rights = fabric::Rights::kAll})
                  .value();
    listener_ = lender.listen({.address = "sim://host0:7400", .passive = true}).value();
    queue_ = world_.host(1).fabric().create_completion_queue({}).value();
    scheduler_ = std::make_unique<fabric::Scheduler>(*queue_);
  }
  ~Lender() {
    for (Client& client : clients_) client.endpoint->close();
    clients_.clear();
    scheduler_.reset();
  }

  // A worker's way to the memory.
  remote::Port connect(std::uint32_t host, Duration timeout) {
    fabric::Fabric& fabric = world_.host(host).fabric();
    Client client{.queue = fabric.create_completion_queue({}).value(), .endpoint = nullptr};
    client.endpoint = fabric.connect({.address = "sim://host0:7400"}, *client.queue).value();
    clients_.push_back(std::move(client));
    return {*clients_.back().endpoint, *scheduler_, timeout};
  }

  // From now on things go wrong, each kind in some seeds.
  void begin_faults(Prng& random, const FaultMix& mix, Duration within) {
    fabric::sim::FaultRates rates;
    if (random.chance(0.5)) rates.tear = random.uniform_double();
    rates.tear_bytes = 8u << random.below(4);
    if (random.chance(0.4)) rates.loss = random.uniform_double() * mix.max_loss;
    if (random.chance(0.5)) rates.delay = random.uniform_double() * mix.max_delay;
    if (random.chance(0.4)) rates.completion_error = random.uniform_double() * mix.max_completion_error;
    if (random.chance(0.3)) rates.connection_break = random.uniform_double() * mix.max_connection_break;
    world_.inject(rates);
    const auto some_time = [&] {
      return world_.clock().now() + Duration(random.below(static_cast<std::uint64_t>(within.count())));
    };
    for (std::uint32_t host = 2; host < world_.host_count(); ++host) {
      if (!random.chance(0.25)) continue;
      world_.schedule({.at = some_time(), .kind = fabric::sim::FaultKind::kCrash, .host = host});
    }
    if (random.chance(0.2)) {
      world_.schedule({.at = some_time(), .kind = fabric::sim::FaultKind::kBreak, .host = 0});
    }
  }
  void end_faults() { world_.inject({}); }
  void crash(std::uint32_t host, Duration after) {
    world_.schedule(
        {.at = world_.clock().now() + after, .kind = fabric::sim::FaultKind::kCrash, .host = host});
  }

  // Lets the tasks work until `finished` reaches `all`; false: some call never ended.
  bool run_until(const std::uint32_t& finished, std::uint32_t all) {
    for (int i = 0; i < 4000 && finished < all; ++i) {
      (void)scheduler_->run(Deadline::after(world_.clock(), std::chrono::milliseconds(5)));
    }
    return finished == all;
  }

  fabric::Fabric& fabric(std::uint32_t host) { return world_.host(host).fabric(); }
  fabric::RegionToken token() const { return region_.token(); }
  fabric::Scheduler& scheduler() { return *scheduler_; }
  const Clock& clock() const { return world_.clock(); }
  Deadline within(Duration duration) const { return Deadline::after(clock(), duration); }

 private:
  struct Client {
    std::unique_ptr<fabric::CompletionQueue> queue;
    std::unique_ptr<fabric::Endpoint> endpoint;
  };

  fabric::sim::World world_;
  std::vector<std::uint64_t> memory_;
  fabric::Region region_;
  std::unique_ptr<fabric::Listener> listener_;
  std::unique_ptr<fabric::CompletionQueue> queue_;
  std::unique_ptr<fabric::Scheduler> scheduler_;
  std::vector<Client> clients_;
};

// Calls run(seed) for many seeds, until one fails; that one is named.
template <typename Run>
void for_many_seeds(Run&& run) {
  const auto seeds = static_cast<std::uint64_t>(testing::scaled(1000)) * testing::test_effort();
  for (std::uint64_t i = 0; i < seeds && !::testing::Test::HasFailure(); ++i) {
    const std::uint64_t seed = testing::test_seed() + i;
    SCOPED_TRACE("seed " + std::to_string(seed));
    run(seed);
  }
}

}  // namespace yonder
