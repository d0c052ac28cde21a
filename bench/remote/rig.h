#pragma once
// Where the benchmarks of the toolkit run: one target with memory, and lanes that reach
// it, each a thread with a connection. Simulated, or real with one lane.
//
// Simulated lanes are spread over client hosts like those of paper 002 (ConnectX-3,
// 40 Gb/s); one scheduler drives all of them in virtual time.
//
// Concurrency: one thread. Lifetime: lanes belong to the rig; what stands on them goes
// first.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/fabric/fabric.h"
#include "yonder/fabric/scheduler.h"
#include "yonder/fabric/sim/world.h"
#include "yonder/os/mapping.h"
#include "yonder/remote/buffer_pool.h"
#include "yonder/remote/port.h"

namespace yonder::bench {

struct RigOptions {
  std::string_view provider = "sim";  // sim, shm, tcp
  std::uint64_t seed = 1;
  std::uint32_t lanes = 1;
  std::uint32_t client_hosts = 1;  // that the lanes are spread over; sim only
  std::uint32_t depth = 128;
  std::size_t target_bytes = 1 << 20;
  std::size_t local_bytes = 1 << 20;  // of each lane, registered
};

class Lane {
 public:
  remote::Port port() const { return {*endpoint, *scheduler}; }
  fabric::LocalPiece piece(std::size_t offset, std::uint32_t bytes) const {
    return {memory.data() + offset, bytes, region.local_key()};
  }

  fabric::Fabric* fabric = nullptr;
  fabric::Scheduler* scheduler = nullptr;
  os::Mapping memory;
  fabric::Region region;
  std::unique_ptr<fabric::CompletionQueue> queue;
  std::unique_ptr<remote::BufferPool> pool;
  std::unique_ptr<fabric::Endpoint> endpoint;
};

class Rig {
 public:
  static Result<std::unique_ptr<Rig>> create(const RigOptions& options);
  ~Rig();
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  Lane& lane(std::size_t i = 0) { return *lanes_[i]; }
  std::size_t lanes() const { return lanes_.size(); }
  fabric::Scheduler& scheduler() { return *scheduler_; }
  const Clock& clock() const { return lanes_.front()->queue->clock(); }
  const fabric::RegionToken& token() const { return token_; }
  fabric::Fabric& target_fabric() { return *target_; }
  bool is_simulated() const { return world_ != nullptr; }
  std::string listen_address() const;

 private:
  explicit Rig(const RigOptions& options) : options_(options) {}
  Result<void> open();
  Result<void> add_lane(fabric::Fabric& fabric);

  const RigOptions options_;
  std::unique_ptr<fabric::sim::World> world_;
  std::unique_ptr<fabric::Fabric> real_target_;
  std::unique_ptr<fabric::Fabric> real_client_;
  fabric::Fabric* target_ = nullptr;
  os::Mapping memory_;
  fabric::Region region_;
  fabric::RegionToken token_;
  std::unique_ptr<fabric::Listener> listener_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::unique_ptr<fabric::Scheduler> scheduler_;
};

// How long tasks go on, and what they got done.
struct Meter {
  const Clock* clock = nullptr;
  Instant end;
  Instant last{};  // when something was done; what runs on behind it is not measured
  std::uint64_t done = 0;
  std::uint64_t failed = 0;
  int running = 0;  // tasks, where others run on as well

  bool goes_on() const { return failed == 0 && clock->now() < end; }
  void count(bool ok, std::uint64_t amount = 1) {
    last = clock->now();
    ok ? done += amount : ++failed;
  }
};

// Runs start(lane, meter) for each lane for `duration`; operations per microsecond, that
// is, millions a second. kCorrupt if an operation failed.
template <typename Start>
Result<double> measure_mops(Rig& rig, Duration duration, Start start) {
  const Instant begin = rig.clock().now();
  Meter meter{.clock = &rig.clock(), .end = begin + duration};
  for (std::size_t i = 0; i < rig.lanes(); ++i) rig.scheduler().spawn(start(i, meter));
  YONDER_TRY_VOID(rig.scheduler().run(Deadline::at(begin + duration * 100 + std::chrono::seconds(10))));
  if (meter.failed > 0) return fail(ErrorCode::kCorrupt, "measured operations failed");
  return static_cast<double>(meter.done) * 1e3 / static_cast<double>((meter.last - begin).count());
}

// How long one measurement takes: virtual time is cheap, real time is not.
Duration measure_for(const Rig& rig, bool quick);

}  // namespace yonder::bench
