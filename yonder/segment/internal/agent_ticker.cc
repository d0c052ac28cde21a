// What must happen although nobody asks: the lease, matters in doubt, memory to unmap.

#include <utility>

#include "yonder/base/log.h"
#include "yonder/segment/internal/agent_core.h"
#include "yonder/segment/internal/fault_router.h"

namespace yonder::segment {

using internal::HoldingState;

namespace {

// A target's death is learned from the directory; there is no hurry.
constexpr std::uint64_t kLookAfterLeavingRounds = 10;

}  // namespace

void Agent::Core::unmap_later(os::Mapping mapping) {
  const sync::LockGuard lock(mutex_);
  to_unmap_.push_back(std::move(mapping));
}

void Agent::Core::tick_until(const std::stop_token& stop) {
  sync::Mutex mutex;
  sync::Condition stopped;
  const std::stop_callback wake(stop, [&] {
    const sync::LockGuard lock(mutex);
    stopped.notify_all();
  });
  for (std::uint64_t round = 0; !stop.stop_requested(); ++round) {
    tick(round);
    sync::LockGuard lock(mutex);
    if (!stop.stop_requested()) (void)stopped.wait(lock, Deadline::after(clock_, options_.tick));
  }
}

void Agent::Core::tick(std::uint64_t round) {
  if (const Result<void> renewed = directory_.renew(self_, or_default({})); !renewed && round % 100 == 0)
    log_warn("segment", "lease not renewed", {{"process", self_.value()}, {"error", renewed.error()}});
  repeat_closings();
  give_back_memory();
  if (round % kLookAfterLeavingRounds == 0) look_after_kept();
  std::vector<HoldingPtr> held;
  {
    const sync::LockGuard lock(mutex_);
    for (const auto& [id, holding] : table_) held.push_back(holding);
  }
  for (const HoldingPtr& holding : held) {
    switch (holding->current_state()) {
      case HoldingState::kInDoubt:
        resolve_doubt(holding);
        break;
      case HoldingState::kLeaving:
        if (round % kLookAfterLeavingRounds == 0) look_after_leaving(holding);
        break;
      case HoldingState::kArriving:
        report_arrived(holding);
        break;
      default:
        break;
    }
  }
}

void Agent::Core::give_back_memory() {
  std::vector<os::Mapping> unmapped;
  std::vector<HoldingPtr> ended;
  {
    const sync::LockGuard lock(mutex_);
    unmapped.swap(to_unmap_);
    ended.swap(ended_);
  }
  for (const HoldingPtr& holding : ended) {
    // A mover that has ended its own holding has a reference to it until it is gone: it
    // must not be the last, or the thread would wait for itself.
    if (holding->mover.joinable()) holding->mover.join();
  }
}

void Agent::Core::repeat_closings() {
  std::vector<Closing> closings;
  {
    const sync::LockGuard lock(mutex_);
    closings.swap(closings_);
  }
  for (const Closing& closing : closings) tell_source(closing.segment, closing.source);
}

// S3.
void Agent::Core::resolve_doubt(const HoldingPtr& holding) {
  const Result<SegmentRecord> record = directory_.find(holding->id, or_default({}));
  if (!record) return;
  const ProcessId target = holding->current_peer();
  if (record->owner == target) {
    holding->set_epoch(record->epoch);
    holding->set_state(HoldingState::kLeaving);
    tell_target(*holding, target, or_default({}));
  } else if (record->state != SegmentState::kLost) {
    // Not executed, and it never will be: the move is taken back.
    if (directory_.cancel_move(holding->id, self_, or_default({}))) restore(*holding);
  }
}

// The target is dead, or has dropped the segment without a word: nobody reads it any more.
void Agent::Core::look_after_leaving(const HoldingPtr& holding) {
  const Result<SegmentRecord> record = directory_.find(holding->id, or_default({}));
  const bool gone = !record ? record.error() == ErrorCode::kNotFound : record->state == SegmentState::kLost;
  if (gone) drop(holding);
}

void Agent::Core::report_arrived(const HoldingPtr& holding) {
  bool wanted = false;
  std::shared_ptr<internal::Arrival> arrival;
  {
    const sync::LockGuard lock(holding->mutex);
    wanted = holding->release_early && holding->state == HoldingState::kArriving;
    arrival = holding->arrival;
  }
  if (!wanted || arrival == nullptr || arrival->is_source_lost()) return;
  std::vector<ByteRange> news = arrival->take_unreported();
  const Deadline deadline = or_default({});
  Result<std::shared_ptr<internal::PeerLine>> line = line_to(holding->current_peer(), deadline);
  if (!line) return;
  for (std::size_t i = 0; i < news.size(); i += protocol::kMaxRanges) {
    const auto first = news.begin() + static_cast<std::ptrdiff_t>(i);
    const auto last =
        news.begin() + static_cast<std::ptrdiff_t>(std::min(news.size(), i + protocol::kMaxRanges));
    (void)(*line)->call<protocol::Arrived>({holding->id, {{first, last}}}, deadline);
  }
}

}  // namespace yonder::segment
