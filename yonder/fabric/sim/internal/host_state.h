#pragma once
// What a simulated host has: NICs, registered regions, listeners, and its health.
//
// Concurrency: one thread. Lifetime: owned by the engine, as long as the world.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "yonder/base/id.h"
#include "yonder/fabric/sim/internal/nic.h"
#include "yonder/fabric/sim/internal/pool.h"
#include "yonder/fabric/sim/world.h"

namespace yonder::fabric::sim {

class ListenerImpl;
class RegionImpl;

class HostState {
 public:
  HostState(std::uint32_t index, const HostOptions& options) : index_(index), options_(options) {
    for (const NicPlace& place : options.nics) {
      nics_.push_back(std::make_unique<Nic>(place.model, place.socket));
    }
  }

  std::uint32_t index() const { return index_; }
  const std::string& name() const { return options_.name; }
  std::uint32_t sockets() const { return options_.sockets; }
  std::uint64_t page_bytes() const { return options_.page_bytes; }
  Ticks wire_latency() const { return nics_[0]->model().wire_latency; }
  Nic& nic(std::uint32_t i) { return *nics_[i]; }
  std::uint32_t nic_count() const { return static_cast<std::uint32_t>(nics_.size()); }

  void slow_down(std::uint32_t percent) {
    percent_ = percent;
    for (const auto& nic : nics_) nic->slow_down(percent);
  }
  Ticks scaled(Ticks ticks) const { return percent_ == 100 ? ticks : ticks * percent_ / 100; }

  bool is_up = true;
  Epoch epoch{0};
  Placement placement;   // of what is made next
  std::size_t made = 0;  // queues, endpoints, regions and listeners alive
  std::uint16_t next_port = 49152;
  std::unordered_map<std::uint64_t, RegionImpl*> regions;  // by key: 64 random bits
  std::map<std::uint16_t, ListenerImpl*> listeners;        // by port

 private:
  const std::uint32_t index_;
  const HostOptions options_;
  std::uint32_t percent_ = 100;
  std::vector<std::unique_ptr<Nic>> nics_;
};

}  // namespace yonder::fabric::sim
