#pragma once
// A simulated cluster in virtual time: hosts with NICs, sockets and links, one
// seed, one thread.
//
//   sim::World world({.seed = 7, .hosts = 3});
//   Fabric& target = world.host(0).fabric();        // sim://host0:…
//   Fabric& client = world.host(1).fabric();
//   … register, listen, connect, read, write as on any provider …
//   Scheduler scheduler(*queue);                    // drives the clients of all hosts
//
// The bytes are real, the time is not: it stands still while the program computes
// and moves when somebody waits (CompletionQueue::wait, connect, accept, run_for).
// The same seed and program give the same run, event for event: trace_hash() says
// so. What is modelled: nic_model.h; what goes wrong: fault_plan.h.
//
// Concurrency: one thread for a world and all that was made in it, except
// CompletionQueue::wake(). Blocking calls (wait, connect, accept with a deadline
// ahead) are not allowed inside a coroutine or an Operation of the same world:
// they would run the world inside itself (checked).
// Lifetime: outlives everything made by its fabrics (checked).

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "yonder/base/time.h"
#include "yonder/fabric/fabric.h"
#include "yonder/fabric/sim/fault_plan.h"
#include "yonder/fabric/sim/nic_model.h"

namespace yonder::fabric::sim {

class Engine;
class HostState;

struct NicPlace {
  std::uint32_t socket = 0;
  NicModel model;
};

struct HostOptions {
  std::string name;  // empty: "host" and its number
  std::uint32_t sockets = 1;
  std::vector<NicPlace> nics = {NicPlace{}};
  // Pages of registered memory; 2 MiB where the host would use huge pages.
  std::uint64_t page_bytes = 4096;
};

struct WorldOptions {
  std::uint64_t seed = 1;
  std::uint32_t hosts = 2;  // made alike from `host`; add_host() makes others
  HostOptions host;
  NetworkModel network;
};

// Where the things made next on a host are: queues (that is, threads) on `socket`,
// registered memory on `memory_socket`, connections on NIC `nic`. A listener takes
// the NIC of its address option (sim://host0:7400?nic=1), else this one.
struct Placement {
  std::uint32_t socket = 0;
  std::uint32_t memory_socket = 0;
  std::uint32_t nic = 0;
};

// What the caches of a NIC met so far.
struct NicCounters {
  std::uint64_t translation_hits = 0;
  std::uint64_t translation_misses = 0;
  std::uint64_t context_hits = 0;
  std::uint64_t context_misses = 0;
  std::uint64_t region_hits = 0;
  std::uint64_t region_misses = 0;
};

class Host {
 public:
  std::uint32_t index() const;
  const std::string& name() const;
  Fabric& fabric() { return *fabric_; }
  bool is_up() const;

  // Requires sockets and a NIC that exist (checked).
  void place(const Placement& placement);
  // The application remapped this memory: stands for the kernel telling the NIC,
  // which a simulation cannot overhear. Pages of on-demand-paging regions in it
  // fault at the next access; pinned regions do not notice.
  void pages_remapped(std::span<const std::byte> memory);
  NicCounters counters(std::uint32_t nic = 0) const;

 private:
  friend class World;
  Host(Engine& engine, HostState& state, std::unique_ptr<Fabric> fabric)
      : engine_(engine), state_(state), fabric_(std::move(fabric)) {}

  Engine& engine_;
  HostState& state_;
  std::unique_ptr<Fabric> fabric_;
};

class World {
 public:
  explicit World(const WorldOptions& options = {});
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  Host& host(std::uint32_t index);
  std::uint32_t host_count() const;
  // Names are unique (checked).
  Host& add_host(const HostOptions& options);
  // Adds to the one-way time between two hosts: another rack, another town.
  void add_distance(std::uint32_t a, std::uint32_t b, Duration one_way);

  const Clock& clock() const;
  // Lets virtual time pass: everything due happens. Not inside an event (checked).
  void run_for(Duration duration);

  // Rates from now on.
  void inject(const FaultRates& rates);
  // An action at its time; at once if that is past.
  void schedule(const FaultAction& action);

  // Of every event so far: equal for equal seeds and programs.
  std::uint64_t trace_hash() const;
  std::uint64_t events_run() const;
  std::uint64_t requests_completed() const;
  // Requests posted, or given up and still on the wire. 0 when all is closed and
  // quiet: nothing leaks.
  std::size_t requests_under_way() const;

 private:
  std::unique_ptr<Engine> engine_;
  std::vector<std::unique_ptr<Host>> hosts_;
};

// The thread of a simulated queue computes for so long: what it does next happens
// later. For costs that the fabric cannot see (copying, hashing). Requires a queue
// made by a sim fabric (checked).
void spend_cpu(CompletionQueue& queue, Duration duration);

}  // namespace yonder::fabric::sim
