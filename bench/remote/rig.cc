#include "bench/remote/rig.h"

#include <unistd.h>

#include <atomic>

#include "yonder/fabric/shm/shm.h"
#include "yonder/fabric/tcp/tcp.h"

namespace yonder::bench {

Result<std::unique_ptr<Rig>> Rig::create(const RigOptions& options) {
  auto rig = std::unique_ptr<Rig>(new Rig(options));
  YONDER_TRY_VOID(rig->open());
  return rig;
}

Rig::~Rig() {
  for (const auto& lane : lanes_) lane->endpoint.reset();
  scheduler_.reset();
  lanes_.clear();
  listener_.reset();
  region_ = {};
}

std::string Rig::listen_address() const {
  static std::atomic<unsigned> next{0};
  if (world_) return "sim://host0:0";
  if (options_.provider == "tcp") return "tcp://127.0.0.1:0";
  return "shm:bench-" + std::to_string(::getpid()) + "-" + std::to_string(next++);
}

Result<void> Rig::open() {
  if (options_.provider == "sim") {
    world_ = std::make_unique<fabric::sim::World>(
        fabric::sim::WorldOptions{.seed = options_.seed, .hosts = options_.client_hosts + 1});
    target_ = &world_->host(0).fabric();
  } else {
    const auto open_one = [&] {
      return options_.provider == "tcp" ? fabric::tcp::open() : fabric::shm::open({});
    };
    YONDER_TRY(target, open_one());
    YONDER_TRY(client, open_one());
    real_target_ = std::move(target);
    real_client_ = std::move(client);
    target_ = real_target_.get();
  }
  YONDER_TRY(memory, os::Mapping::anonymous({.bytes = options_.target_bytes}));
  memory_ = std::move(memory);
  YONDER_TRY(region, target_->register_memory({.memory = memory_.bytes(), .rights = fabric::Rights::kAll}));
  region_ = std::move(region);
  token_ = region_.token();
  YONDER_TRY(listener, target_->listen({.address = listen_address(), .passive = true}));
  listener_ = std::move(listener);
  for (std::uint32_t i = 0; i < options_.lanes; ++i) {
    YONDER_TRY_VOID(add_lane(world_ ? world_->host(1 + i % options_.client_hosts).fabric() : *real_client_));
  }
  return {};
}

Result<void> Rig::add_lane(fabric::Fabric& fabric) {
  auto lane = std::make_unique<Lane>();
  lane->fabric = &fabric;
  YONDER_TRY(memory, os::Mapping::anonymous({.bytes = options_.local_bytes}));
  lane->memory = std::move(memory);
  YONDER_TRY(region, fabric.register_memory({.memory = lane->memory.bytes()}));
  lane->region = std::move(region);
  YONDER_TRY(queue, fabric.create_completion_queue({}));
  lane->queue = std::move(queue);
  YONDER_TRY(pool, remote::BufferPool::create(fabric));
  lane->pool = std::move(pool);
  YONDER_TRY(
      endpoint,
      fabric.connect({.address = listener_->address(), .endpoint = {.depth = options_.depth}}, *lane->queue));
  lane->endpoint = std::move(endpoint);
  if (!scheduler_) scheduler_ = std::make_unique<fabric::Scheduler>(*lane->queue);
  lane->scheduler = scheduler_.get();
  lanes_.push_back(std::move(lane));
  return {};
}

Duration measure_for(const Rig& rig, bool quick) {
  using std::chrono::milliseconds;
  if (rig.is_simulated()) return milliseconds(quick ? 1 : 4);
  return milliseconds(quick ? 20 : 60);
}

}  // namespace yonder::bench
