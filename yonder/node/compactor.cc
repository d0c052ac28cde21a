#include "yonder/node/compactor.h"

#include <algorithm>

#include "yonder/base/check.h"
#include "yonder/node/internal/compaction_run.h"
#include "yonder/node/internal/heap_core.h"
#include "yonder/os/steady_clock.h"

namespace yonder::node {

struct Compactor::ClassRun {
  ClassRun(internal::HeapCore& core, std::uint8_t size_class) : run(core, size_class) {}
  std::atomic<bool> is_led{false};
  internal::CompactionRun run;  // The leader's.
};

// Who holds one leads the class.
class Compactor::Leader {
 public:
  // acquire: pairs with the release below; the run is as the last leader left it.
  explicit Leader(ClassRun& of) : of_(of), elected_(!of.is_led.exchange(true, std::memory_order_acquire)) {}
  ~Leader() {
    if (elected_) of_.is_led.store(false, std::memory_order_release);
  }
  Leader(const Leader&) = delete;
  Leader& operator=(const Leader&) = delete;
  explicit operator bool() const { return elected_; }

 private:
  ClassRun& of_;
  const bool elected_;
};

Compactor::Compactor(internal::HeapCore& core, const CompactorOptions& options)
    : core_(core), options_(options) {
  for (std::size_t i = 0; i < core.classes.count(); ++i) {
    runs_.push_back(std::make_unique<ClassRun>(core, static_cast<std::uint8_t>(i)));
  }
}

Compactor::~Compactor() {
  stop_background();
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    YONDER_CHECK(stop(static_cast<std::uint8_t>(i)) != SliceOutcome::kBusy,
                 "nobody compacts a heap that is going");
  }
}

SliceOutcome Compactor::slice(std::uint8_t size_class, const SliceLimits& limits) {
  ClassRun& of = *runs_[size_class];
  const Leader leader(of);
  if (!leader) return SliceOutcome::kBusy;
  CompactionCounters part;
  const auto outcome = of.run.slice(options_.max_frames, limits, part);
  add_to_counters(part);
  using Outcome = internal::CompactionRun::Outcome;
  switch (outcome) {
    case Outcome::kTooEarly:
      return SliceOutcome::kLater;
    case Outcome::kMore:
      return SliceOutcome::kMore;
    case Outcome::kDone:
      return SliceOutcome::kDone;
    case Outcome::kNothing:
      break;
  }
  return SliceOutcome::kNothing;
}

SliceOutcome Compactor::stop(std::uint8_t size_class) {
  ClassRun& of = *runs_[size_class];
  const Leader leader(of);
  if (!leader) return SliceOutcome::kBusy;
  if (!of.run.is_running()) return SliceOutcome::kNothing;
  CompactionCounters part;
  of.run.stop(part);
  add_to_counters(part);
  return SliceOutcome::kDone;
}

std::uint64_t Compactor::compact(std::uint8_t size_class) { return compact_while(size_class, nullptr); }

std::uint64_t Compactor::compact_while(std::uint8_t size_class, const std::atomic<bool>* stopping) {
  const std::uint64_t before = counters().bytes_freed;
  const Deadline patience = Deadline::after(core_.clock, core_.options.longest_wait);
  for (;;) {
    const SliceOutcome outcome = slice(size_class);
    if (outcome == SliceOutcome::kNothing || outcome == SliceOutcome::kBusy) break;
    if (outcome == SliceOutcome::kLater && patience.passed(core_.clock.now())) break;
    if (stopping != nullptr && stopping->load(std::memory_order_relaxed)) {
      stop(size_class);
      break;
    }
    std::this_thread::yield();
  }
  core_.reclaimer.poll();
  return counters().bytes_freed - before;
}

std::uint64_t Compactor::compact_all() {
  std::uint64_t freed = 0;
  for (std::size_t i = 0; i < runs_.size(); ++i) freed += compact(static_cast<std::uint8_t>(i));
  return freed;
}

std::uint64_t Compactor::live_objects(std::uint8_t size_class) const {
  std::uint64_t live = 0;
  for (const internal::ThreadRecord& record : core_.threads.records()) {
    live += record.bins[size_class].allocated.get() - record.bins[size_class].freed.get();
  }
  return live;
}

std::uint64_t Compactor::waste_bytes(std::uint8_t size_class) const {
  const SizeClass& shape = core_.classes[size_class];
  const std::uint64_t frames = core_.pools[size_class]->frame_count();
  const std::uint64_t needed = (live_objects(size_class) + shape.slots - 1) / shape.slots;
  return frames <= needed ? 0 : (frames - needed) * shape.frame_bytes;
}

bool Compactor::is_due(std::uint8_t size_class) const {
  if (waste_bytes(size_class) < std::max<std::uint64_t>(options_.min_waste_bytes, 1)) return false;
  double threshold = options_.threshold;
  if (size_class < options_.class_thresholds.size() && options_.class_thresholds[size_class] > 0) {
    threshold = options_.class_thresholds[size_class];
  }
  const std::uint64_t slots = core_.pools[size_class]->frame_count() * core_.classes[size_class].slots;
  const std::uint64_t live = std::max<std::uint64_t>(live_objects(size_class), 1);
  return static_cast<double>(slots) > threshold * static_cast<double>(live);
}

std::uint64_t Compactor::run_due() {
  std::uint64_t freed = 0;
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    const auto size_class = static_cast<std::uint8_t>(i);
    if (background_stops_.load(std::memory_order_relaxed)) break;
    if (is_due(size_class)) freed += compact_while(size_class, &background_stops_);
  }
  return freed;
}

bool Compactor::relieve() {
  const std::uint64_t before = core_.store->active_bytes();
  std::uint64_t freed = 0;
  bool busy = false;
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    const auto size_class = static_cast<std::uint8_t>(i);
    if (waste_bytes(size_class) == 0) continue;
    freed += compact(size_class);
    busy |= runs_[i]->is_led.load(std::memory_order_relaxed);  // A reason to try again.
  }
  const Deadline deadline = Deadline::after(core_.clock, core_.options.longest_wait);
  while (!core_.reclaimer.poll() && core_.store->active_bytes() >= before &&
         !deadline.passed(core_.clock.now())) {
    std::this_thread::yield();
  }
  return freed != 0 || busy || core_.store->active_bytes() < before;
}

namespace {

// Frames read per hold of a pool's mutex.
constexpr std::size_t kSampleFrames = 256;

}  // namespace

CompactionEstimate Compactor::dry_run(std::uint8_t size_class) const {
  std::vector<PackingFrame> packing;
  internal::OccupancyReader reader;
  for (std::size_t from = 0;; from += kSampleFrames) {
    const std::size_t seen =
        core_.pools[size_class]->visit_frames(from, kSampleFrames, [&](internal::Frame& frame) {
          auto occupancy = reader.read(frame);
          std::uint64_t live = 0;
          for (const std::uint32_t count : occupancy.packing.blocks) live += count;
          if (live < frame.slots()) packing.push_back(std::move(occupancy.packing));
        });
    if (seen < kSampleFrames) break;
  }
  const PackingPlan plan = plan_packing(packing);
  CompactionEstimate out;
  out.frames = packing.size();
  out.frames_freed = plan.freed.size();
  out.bytes_freed = plan.freed.size() * core_.classes[size_class].frame_bytes;
  for (const PackingMove& move : plan.moves) out.objects_moved += packing[move.source].blocks[move.block];
  return out;
}

Result<void> Compactor::start_background(Duration interval) {
  if (background_.joinable()) return fail(ErrorCode::kInvalidArgument, "a second background compactor");
  background_stops_.store(false, std::memory_order_relaxed);
  background_ = std::thread([this, interval] { background(interval); });
  return {};
}

void Compactor::stop_background() {
  if (!background_.joinable()) return;
  {
    sync::LockGuard lock(background_mutex_);
    background_stops_.store(true, std::memory_order_relaxed);
  }
  background_wakes_.notify_all();
  background_.join();
  background_stops_.store(false, std::memory_order_relaxed);
}

void Compactor::background(Duration interval) {
  for (;;) {
    run_due();
    core_.reclaimer.poll();
    // The machine's clock, whatever the heap's: a condition knows no other.
    const os::SteadyClock clock;
    const Deadline next = Deadline::after(clock, interval);
    sync::LockGuard lock(background_mutex_);
    while (!background_stops_.load(std::memory_order_relaxed) && background_wakes_.wait(lock, next)) {
    }
    if (background_stops_.load(std::memory_order_relaxed)) return;
  }
}

std::vector<BlockId> Compactor::held_blocks() const {
  std::vector<BlockId> held;
  for (const auto& of : runs_) {
    if (const auto block = of->run.held_block()) held.push_back(*block);
  }
  return held;
}

CompactionCounters Compactor::counters() const {
  sync::LockGuard lock(counters_mutex_);
  return counters_;
}

void Compactor::add_to_counters(const CompactionCounters& part) {
  sync::LockGuard lock(counters_mutex_);
  counters_.runs += part.runs;
  counters_.slices += part.slices;
  counters_.blocks_moved += part.blocks_moved;
  counters_.switches_refused += part.switches_refused;
  counters_.objects_moved += part.objects_moved;
  counters_.bytes_moved += part.bytes_moved;
  counters_.frames_freed += part.frames_freed;
  counters_.bytes_freed += part.bytes_freed;
  counters_.collection_ns += part.collection_ns;
  counters_.moving_ns += part.moving_ns;
  counters_.longest_collection_ns = std::max(counters_.longest_collection_ns, part.longest_collection_ns);
  counters_.longest_slice_ns = std::max(counters_.longest_slice_ns, part.longest_slice_ns);
}

}  // namespace yonder::node
