#pragma once
// The heart of a world: virtual time, the events to come, and everything they
// speak of.
//
// The engine runs events in order of time. Between two events nothing happens, so
// an event may look ahead: what it would schedule before the next event it can as
// well do at once (may_run_at). Copies of many lines use that; they stay exact and
// cost an event only where another one really falls between two lines.
//
// Concurrency: one thread. Lifetime: owned by the World.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/base/time.h"
#include "yonder/fabric/sim/fault_plan.h"
#include "yonder/fabric/sim/internal/connections.h"
#include "yonder/fabric/sim/internal/event_queue.h"
#include "yonder/fabric/sim/internal/flight.h"
#include "yonder/fabric/sim/internal/host_state.h"
#include "yonder/fabric/sim/internal/pool.h"
#include "yonder/fabric/sim/internal/transport.h"
#include "yonder/fabric/sim/world.h"

namespace yonder::fabric::sim {

class EndpointImpl;
class QueueImpl;
class RegionImpl;

inline constexpr Ticks kNever = std::numeric_limits<Ticks>::max();

// Virtual nanoseconds to ticks; what is beyond the range is never, or long past.
constexpr Ticks to_ticks(Instant instant) {
  if (instant.ns() < 0) return 0;
  return instant.ns() >= kNever / 1000 ? kNever : instant.ns() * 1000;
}
constexpr Ticks to_ticks(Duration duration) { return to_ticks(Instant::from_ns(duration.count())); }

class Engine {
 public:
  explicit Engine(const WorldOptions& options);
  ~Engine();

  // --- Time.
  Ticks now() const { return now_; }
  // `duration` from now; never if that is beyond the range.
  Ticks after(Duration duration) const {
    const Ticks ticks = to_ticks(duration);
    return ticks < kNever - now_ ? now_ + ticks : kNever;
  }
  const Clock& clock() const { return clock_; }
  bool is_running() const { return running_; }
  EventQueue& events() { return events_; }
  // True if nothing else happens before `at`: the caller may go on at once as if
  // an event had brought it there. It must then call advance_to(at).
  bool may_run_at(Ticks at) const { return at <= limit_ && (events_.empty() || at < events_.next_at()); }
  void advance_to(Ticks at) { now_ = at; }

  // Runs events until `done()` says so or the next one is later than `limit`; the
  // time is then `limit`. Returns whether it is done. Not inside an event (checked).
  template <typename Done>
  bool run(Done done, Ticks limit) {
    begin_run(limit);
    bool is_done = done();
    while (!is_done && step(limit)) is_done = done();
    end_run();
    return is_done;
  }
  Result<void> wait(QueueImpl& queue, Deadline deadline);
  // Lets time pass if the caller may block, that is, outside of events.
  void pass_time(Ticks until);
  // Deadline of a blocking call, with its default.
  Ticks limit_of(Deadline deadline, Duration by_default) const;

  // --- What there is.
  Pool<Flight>& flights() { return flights_; }
  Pool<QueuePair>& pairs() { return pairs_; }
  Table<QueueImpl>& queues() { return queues_; }
  Table<EndpointImpl>& endpoints() { return endpoints_; }
  Table<RegionImpl>& regions() { return regions_; }
  Transport& transport() { return transport_; }
  Connections& connections() { return connections_; }
  Prng& random() { return random_; }
  const NetworkModel& network() const { return network_; }
  std::uint64_t next_serial() { return ++serial_; }

  HostState& add_host(const HostOptions& options);
  HostState& host(std::uint32_t index) { return *hosts_[index]; }
  std::uint32_t host_count() const { return static_cast<std::uint32_t>(hosts_.size()); }
  // Null if there is none of that name.
  HostState* find_host(std::string_view name);

  Ref add_region(RegionImpl& region, HostState& host);
  void remove_region(RegionImpl& region, HostState& host);
  // Connections that wait for one of these buffers go on.
  void receives_posted(const ReceiveBuffers& buffers);
  // The region a local key was made by; null if it is gone.
  RegionImpl* find_local(LocalKey key) const;
  // Ends the connections of all flights that are moving bytes of this region.
  void break_accessors(Ref region);

  // --- The network and its faults.
  Ticks one_way(const HostState& from, const HostState& to) const;
  void add_distance(std::uint32_t a, std::uint32_t b, Ticks one_way);
  bool is_cut(const HostState& from, const HostState& to) const;
  const FaultRates& rates() const { return rates_; }
  // True with probability p; draws nothing if p is 0, so that faults which are off
  // do not change a run.
  bool strikes(double p) { return p > 0 && random_.chance(p); }
  void inject(const FaultRates& rates) { rates_ = rates; }
  void schedule(const FaultAction& action);

  // --- Counting.
  void count_operation() { ++operations_called_; }
  void count_request() { ++requests_completed_; }
  // Adds to the trace hash what an event led to.
  void trace(std::uint64_t value) { trace_ = (trace_ ^ value) * 0x9e3779b97f4a7c15 + (trace_ >> 29); }
  std::uint64_t trace_hash() const { return trace_; }
  std::uint64_t events_run() const { return events_run_; }
  std::uint64_t requests_completed() const { return requests_completed_; }

 private:
  class VirtualClock final : public Clock {
   public:
    explicit VirtualClock(const Ticks& now) : now_(now) {}
    Instant now() const override { return Instant::from_ns(now_ / 1000); }

   private:
    const Ticks& now_;
  };

  void begin_run(Ticks limit);
  void end_run() { running_ = false; }
  // Runs the next event if it is due by `limit`.
  bool step(Ticks limit);
  void handle(const Event& event);
  void handle_fault(std::uint32_t number);

  // One second, because 0 is "no deadline of its own".
  Ticks now_ = ms(1000);
  VirtualClock clock_{now_};
  Ticks limit_ = 0;
  bool running_ = false;
  EventQueue events_;
  Prng random_;
  const NetworkModel network_;
  FaultRates rates_;
  std::vector<FaultAction> actions_;
  std::vector<std::vector<bool>> partitions_;  // Each: which hosts are inside.
  std::vector<Ticks> distance_;                // Square matrix; empty if all are 0.
  std::vector<std::unique_ptr<HostState>> hosts_;
  Pool<Flight> flights_;
  Pool<QueuePair> pairs_;
  Table<QueueImpl> queues_;
  Table<EndpointImpl> endpoints_;
  Table<RegionImpl> regions_;
  std::unordered_map<std::uint64_t, RegionImpl*> local_regions_;  // by serial: the local key
  Transport transport_{*this};
  Connections connections_{*this};
  std::uint64_t serial_ = 0;
  std::uint64_t operations_called_ = 0;
  std::uint64_t requests_completed_ = 0;
  std::uint64_t events_run_ = 0;
  std::uint64_t trace_ = 0;
};

}  // namespace yonder::fabric::sim
