// A third process's part: a copy of what moves between two others (kept.h).

#include <utility>
#include <vector>

#include "yonder/segment/internal/agent_core.h"
#include "yonder/segment/internal/places.h"

namespace yonder::segment {

using internal::Holding;
using internal::Kept;

void Agent::Core::serve_keeper() {
  namespace p = protocol;
  const rpc::MethodOptions worker{.run = rpc::Run::kWorker};
  server_->handle<p::Keep>([this](const rpc::Context& context,
                                  const p::KeepRequest& request) { return take_keep(context, request); },
                           worker);
  server_->handle<p::KeepCopy>(
      [this](const rpc::Context& context, const p::SegmentRanges& request) {
        return take_keep_copy(context, request);
      },
      worker);
}

Result<protocol::Place> Agent::Core::take_keep(const rpc::Context& context,
                                               const protocol::KeepRequest& request) {
  // A peer's word is not enough to take memory: the directory must know of the move.
  YONDER_TRY(record, directory_.find(request.record.id, context.deadline()));
  if (record.state != SegmentState::kMoving || record != request.record || record.owner == self_ ||
      record.target == self_) {
    return fail(ErrorCode::kNotFound, "keep a segment whose move the directory does not know");
  }
  YONDER_TRY(source, internal::dialled(request.source.address, options_.data_address));
  YONDER_TRY(kept, internal::make_kept(fabric_, record, source, request.source.region));
  const protocol::Place place{internal::told(data_listener_->address()), kept->region.token()};
  const sync::LockGuard lock(mutex_);
  kept_[record.id] = std::move(kept);
  return place;
}

Result<rpc::Empty> Agent::Core::take_keep_copy(const rpc::Context& context,
                                               const protocol::SegmentRanges& request) {
  const std::shared_ptr<Kept> kept = find_kept(request.segment);
  if (kept == nullptr) return fail(ErrorCode::kNotFound, "copy a segment that is not kept here");
  for (const ByteRange& range : request.ranges.ranges)
    YONDER_TRY_VOID(internal::copy_range(*kept, range, context.deadline()));
  return rpc::Empty{};
}

std::shared_ptr<Kept> Agent::Core::find_kept(SegmentId segment) const {
  const sync::LockGuard lock(mutex_);
  const auto found = kept_.find(segment);
  return found == kept_.end() ? nullptr : found->second;
}

bool Agent::Core::forget_kept(SegmentId segment) {
  std::shared_ptr<Kept> gone;  // Unmapped without the lock.
  const sync::LockGuard lock(mutex_);
  const auto found = kept_.find(segment);
  if (found == kept_.end()) return false;
  gone = std::move(found->second);
  kept_.erase(found);
  return true;
}

// Copies whose move came to nothing, or whose target died, are wanted by nobody.
void Agent::Core::look_after_kept() {
  std::vector<std::shared_ptr<Kept>> kept;
  {
    const sync::LockGuard lock(mutex_);
    for (const auto& [id, one] : kept_) kept.push_back(one);
  }
  for (const std::shared_ptr<Kept>& one : kept) {
    const Result<SegmentRecord> now = directory_.find(one->record.id, or_default({}));
    if (!now && now.error() != ErrorCode::kNotFound) continue;
    const bool moving = now && *now == one->record;
    const bool arriving = now && now->state != SegmentState::kLost && now->owner == one->record.target &&
                          now->epoch == next(one->record.epoch);
    if (!moving && !arriving) (void)forget_kept(one->record.id);
  }
}

Result<void> Agent::Core::wake_keeper(Holding& holding, Deadline deadline) {
  const ProcessId keeper = holding.current_keeper();
  if (keeper == ProcessId(0)) return {};
  YONDER_TRY(line, line_to(keeper, deadline));
  const Result<rpc::Empty> awake = line->call<protocol::Prepare>({holding.id}, deadline);
  if (awake) return {};
  forget_line(keeper);
  return std::unexpected(awake.error());
}

// The source's: the bytes do not change any more, so that one pass has them all.
Result<void> Agent::Core::copy_to_keeper(Holding& holding, Deadline deadline) {
  const ProcessId keeper = holding.current_keeper();
  if (keeper == ProcessId(0)) return {};
  YONDER_TRY(line, line_to(keeper, deadline));
  for (std::uint64_t from = 0; from < holding.bytes;) {
    YONDER_TRY(ranges, internal::data_ranges(holding.file, {.from = from, .limit = protocol::kMaxRanges}));
    if (ranges.empty()) break;
    from = ranges.back().offset + ranges.back().length;
    const Result<rpc::Empty> copied =
        line->call<protocol::KeepCopy>({holding.id, {std::move(ranges)}}, deadline);
    if (copied) continue;
    forget_line(keeper);
    return std::unexpected(copied.error());
  }
  return {};
}

}  // namespace yonder::segment
