#include "yonder/fabric/sim/world.h"

#include "yonder/base/check.h"
#include "yonder/fabric/sim/internal/engine.h"
#include "yonder/fabric/sim/internal/fabric_impl.h"
#include "yonder/fabric/sim/internal/queue.h"
#include "yonder/fabric/sim/internal/region.h"

namespace yonder::fabric::sim {

std::uint32_t Host::index() const { return state_.index(); }
const std::string& Host::name() const { return state_.name(); }
bool Host::is_up() const { return state_.is_up; }

void Host::place(const Placement& placement) {
  YONDER_CHECK(placement.socket < state_.sockets() && placement.memory_socket < state_.sockets(),
               "a placement names a socket of its host");
  YONDER_CHECK(placement.nic < state_.nic_count(), "a placement names a NIC of its host");
  state_.placement = placement;
}

void Host::pages_remapped(std::span<const std::byte> memory) {
  for (const auto& [key, region] : state_.regions) {
    const std::byte* const first = region->memory().data();
    const std::byte* const begin = std::max(first, memory.data());
    const std::byte* const end = std::min(first + region->length(), memory.data() + memory.size());
    if (begin < end) {
      region->invalidate(static_cast<std::uint64_t>(begin - first), static_cast<std::uint64_t>(end - begin));
    }
  }
}

NicCounters Host::counters(std::uint32_t nic) const {
  const Nic& device = state_.nic(nic);
  return {.translation_hits = device.translations().hits(),
          .translation_misses = device.translations().misses(),
          .context_hits = device.contexts().hits(),
          .context_misses = device.contexts().misses(),
          .region_hits = device.regions().hits(),
          .region_misses = device.regions().misses()};
}

World::World(const WorldOptions& options) : engine_(std::make_unique<Engine>(options)) {
  for (std::uint32_t i = 0; i < options.hosts; ++i) add_host(options.host);
}

World::~World() = default;

Host& World::host(std::uint32_t index) {
  YONDER_CHECK(index < hosts_.size(), "hosts are numbered from 0");
  return *hosts_[index];
}

std::uint32_t World::host_count() const { return engine_->host_count(); }

Host& World::add_host(const HostOptions& options) {
  HostState& state = engine_->add_host(options);
  hosts_.push_back(
      std::unique_ptr<Host>(new Host(*engine_, state, std::make_unique<FabricImpl>(*engine_, state))));
  return *hosts_.back();
}

void World::add_distance(std::uint32_t a, std::uint32_t b, Duration one_way) {
  YONDER_CHECK(a < hosts_.size() && b < hosts_.size(), "hosts are numbered from 0");
  engine_->add_distance(a, b, to_ticks(one_way));
}

const Clock& World::clock() const { return engine_->clock(); }

void World::run_for(Duration duration) {
  engine_->run([] { return false; }, engine_->after(duration));
}

void World::inject(const FaultRates& rates) {
  YONDER_CHECK(
      rates.tear_bytes == 8 || rates.tear_bytes == 16 || rates.tear_bytes == 32 || rates.tear_bytes == 64,
      "bytes move in units of 8, 16, 32 or 64");
  engine_->inject(rates);
}

void World::schedule(const FaultAction& action) { engine_->schedule(action); }

std::uint64_t World::trace_hash() const { return engine_->trace_hash(); }
std::uint64_t World::events_run() const { return engine_->events_run(); }
std::uint64_t World::requests_completed() const { return engine_->requests_completed(); }

std::size_t World::requests_under_way() const { return engine_->flights().live(); }

void spend_cpu(CompletionQueue& queue, Duration duration) {
  auto* const own = dynamic_cast<QueueImpl*>(&queue);
  YONDER_CHECK(own != nullptr, "spend_cpu needs a queue of a simulated fabric");
  own->spend(to_ticks(duration));
}

}  // namespace yonder::fabric::sim
