#pragma once
// StallDetector: notices threads that stopped making progress.
//
// A worker beats whenever it gets something done and says so before it goes to
// sleep on purpose. Somebody else polls the detector; when a beat is late, the
// callback is told once, and again only after the worker beat again. The usual
// callback dumps the TraceLog.
//
//   YONDER_TRY(heart, detector.register_worker("poller"));
//   for (;;) { heart.beat(); work(); heart.rest(); sleep_until_woken(); }
//
// States × operations of a worker (t: the last beat):
//   state        beat         rest      poll at time n
//   resting      watched t=n  resting   nothing
//   watched t    watched t=n  resting   n - t > limit: told once for this t
//
// Concurrency: register from any thread; beat and rest from the worker, one plain
// store each; poll from one thread at a time (StallWatch has one of its own).
// Lifetime: clock > detector > heartbeats.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/sync/atomics.h"

namespace yonder::telemetry {

struct Stall {
  std::string_view worker;  // Valid during the callback.
  Duration silence;         // Since its last beat.
};

struct StallDetectorOptions {
  Duration limit = std::chrono::seconds(5);
  std::size_t max_workers = 64;
};

class Heartbeat;

class StallDetector {
 public:
  using OnStall = std::move_only_function<void(const Stall&)>;

  StallDetector(const Clock& clock, const StallDetectorOptions& options, OnStall on_stall);
  StallDetector(const StallDetector&) = delete;
  StallDetector& operator=(const StallDetector&) = delete;
  // Requires that all heartbeats are gone (checked).
  ~StallDetector();

  // A worker, resting until its first beat; the name is cut to 15 bytes.
  // Errors: kResourceExhausted (max_workers).
  Result<Heartbeat> register_worker(std::string_view name);

  // Looks at all workers and calls back for those that are late. How many are
  // late now, told before or not.
  std::size_t poll();

 private:
  friend class Heartbeat;
  // No clock shows it: virtual clocks may well start at 0.
  static constexpr std::int64_t kResting = std::numeric_limits<std::int64_t>::min();

  struct alignas(sync::kNoSharingBytes) Worker {
    std::atomic<bool> owned{false};
    // ns of the last beat, or kResting. Relaxed: a poll that sees an old beat
    // decides as it would have a moment ago, and nothing else hangs on it.
    std::atomic<std::int64_t> last_beat_ns{kResting};
    // The beat whose lateness was told; the poller's.
    std::int64_t told_ns = kResting;
    std::array<std::atomic<char>, 16> name{};
  };
  void tell(Worker& worker, std::int64_t beat_ns, Duration silence);
  std::span<Worker> workers() const { return {workers_.get(), options_.max_workers}; }

  const Clock& clock_;
  const StallDetectorOptions options_;
  OnStall on_stall_;
  const std::unique_ptr<Worker[]> workers_;
};

// A worker's own handle. Move-only; the end of it is rest for good.
class Heartbeat {
 public:
  Heartbeat(Heartbeat&& other) noexcept
      : clock_(other.clock_), worker_(std::exchange(other.worker_, nullptr)) {}
  Heartbeat& operator=(Heartbeat&&) = delete;
  ~Heartbeat();

  void beat() { worker_->last_beat_ns.store(clock_->now().ns(), std::memory_order_relaxed); }
  void rest() { worker_->last_beat_ns.store(StallDetector::kResting, std::memory_order_relaxed); }

 private:
  friend class StallDetector;
  Heartbeat(const Clock* clock, StallDetector::Worker* worker) : clock_(clock), worker_(worker) {}
  const Clock* clock_;
  StallDetector::Worker* worker_;
};

}  // namespace yonder::telemetry
