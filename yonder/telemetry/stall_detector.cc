#include "yonder/telemetry/stall_detector.h"

#include "yonder/base/check.h"

namespace yonder::telemetry {

StallDetector::StallDetector(const Clock& clock, const StallDetectorOptions& options, OnStall on_stall)
    : clock_(clock),
      options_(options),
      on_stall_(std::move(on_stall)),
      workers_(std::make_unique<Worker[]>(options.max_workers)) {}

StallDetector::~StallDetector() {
  for (const Worker& worker : workers())
    YONDER_CHECK(!worker.owned.load(std::memory_order_acquire), "heartbeats go before their detector");
}

Result<Heartbeat> StallDetector::register_worker(std::string_view name) {
  for (Worker& worker : workers()) {
    // acquire: pairs with the release in ~Heartbeat.
    if (worker.owned.exchange(true, std::memory_order_acquire)) continue;
    for (std::size_t i = 0; i < worker.name.size(); ++i)
      worker.name[i].store(i < name.size() && i + 1 < worker.name.size() ? name[i] : '\0',
                           std::memory_order_relaxed);
    return Heartbeat(&clock_, &worker);
  }
  return fail(ErrorCode::kResourceExhausted, "watched workers",
              static_cast<std::int64_t>(options_.max_workers));
}

Heartbeat::~Heartbeat() {
  if (worker_ == nullptr) return;
  rest();
  worker_->owned.store(false, std::memory_order_release);  // Pairs with register_worker().
}

std::size_t StallDetector::poll() {
  const Instant now = clock_.now();
  std::size_t late = 0;
  for (Worker& worker : workers()) {
    const std::int64_t beat_ns = worker.last_beat_ns.load(std::memory_order_relaxed);
    if (beat_ns == kResting) continue;
    const Duration silence = now - Instant::from_ns(beat_ns);
    if (silence <= options_.limit) continue;
    ++late;
    if (worker.told_ns != beat_ns) tell(worker, beat_ns, silence);
  }
  return late;
}

void StallDetector::tell(Worker& worker, std::int64_t beat_ns, Duration silence) {
  worker.told_ns = beat_ns;
  std::array<char, 16> name{};
  for (std::size_t i = 0; i + 1 < name.size(); ++i) name[i] = worker.name[i].load(std::memory_order_relaxed);
  on_stall_({.worker = name.data(), .silence = silence});
}

}  // namespace yonder::telemetry
