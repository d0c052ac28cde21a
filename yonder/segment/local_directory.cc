#include "yonder/segment/local_directory.h"

#include <algorithm>
#include <vector>

namespace yonder::segment {

namespace {

constexpr std::size_t kListed = 256;  // per answer

}  // namespace

LocalDirectory::LocalDirectory(const Clock& clock, const LocalDirectoryOptions& options)
    : clock_(clock), options_(options) {
  free_.emplace(0, options.slots);
}

void LocalDirectory::bury_dead(const sync::LockGuard&) {
  const Instant now = clock_.now();
  std::vector<ProcessId> dead;
  for (const auto& [id, process] : processes_) {
    if (process.lease_end < now) dead.push_back(id);
  }
  for (const ProcessId id : dead) bury(id);
}

void LocalDirectory::bury(ProcessId process) {
  processes_.erase(process);
  for (auto& [id, record] : segments_) {
    if (record.state == SegmentState::kLost) continue;
    if (record.owner == process) {
      record.state = SegmentState::kLost;
    } else if (record.state == SegmentState::kMoving && record.target == process) {
      record.state = SegmentState::kOwned;
      record.target = ProcessId(0);
    }
  }
}

Result<void> LocalDirectory::check_alive(ProcessId process) {
  if (processes_.contains(process)) return {};
  return fail(ErrorCode::kStaleEpoch, "directory: the process is not, or no longer, known",
              static_cast<std::int64_t>(process.value()));
}

Result<SegmentRecord*> LocalDirectory::find_live(SegmentId segment) {
  const auto found = segments_.find(segment);
  if (found == segments_.end())
    return fail(ErrorCode::kNotFound, "directory: no such segment",
                static_cast<std::int64_t>(segment.value()));
  if (found->second.state == SegmentState::kLost)
    return fail(ErrorCode::kSegmentLost, "directory: the segment's owner is dead",
                static_cast<std::int64_t>(segment.value()));
  return &found->second;
}

Result<ProcessId> LocalDirectory::join(std::string_view address, Deadline) {
  const sync::LockGuard lock(mutex_);
  bury_dead(lock);
  if (address.empty() || address.size() > kMaxAddress)
    return fail(ErrorCode::kInvalidArgument, "directory: an address has 1 to 256 characters");
  if (processes_.size() >= options_.max_processes)
    return fail(ErrorCode::kResourceExhausted, "directory: too many processes",
                static_cast<std::int64_t>(processes_.size()));
  const ProcessId id(next_process_++);
  processes_.emplace(id, Process{std::string(address), clock_.now() + options_.lease});
  return id;
}

Result<void> LocalDirectory::renew(ProcessId process, Deadline) {
  const sync::LockGuard lock(mutex_);
  bury_dead(lock);
  YONDER_TRY_VOID(check_alive(process));
  processes_.find(process)->second.lease_end = clock_.now() + options_.lease;
  return {};
}

Result<void> LocalDirectory::leave(ProcessId process, Deadline) {
  const sync::LockGuard lock(mutex_);
  YONDER_TRY_VOID(check_alive(process));
  bury(process);
  return {};
}

Result<std::string> LocalDirectory::address_of(ProcessId process, Deadline) {
  const sync::LockGuard lock(mutex_);
  bury_dead(lock);
  const auto found = processes_.find(process);
  if (found == processes_.end())
    return fail(ErrorCode::kNotFound, "directory: no such process",
                static_cast<std::int64_t>(process.value()));
  return found->second.address;
}

Result<SlotRange> LocalDirectory::take_slots(std::uint32_t count) {
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    if (range->second < count) continue;
    const SlotRange taken{range->first, count};
    const std::uint32_t rest = range->second - count;
    free_.erase(range);
    if (rest > 0) free_.emplace(taken.first + count, rest);
    return taken;
  }
  return fail(ErrorCode::kResourceExhausted, "directory: the arena has no such range left", count);
}

void LocalDirectory::free_slots(SlotRange range) {
  auto after = free_.lower_bound(range.first);
  if (after != free_.end() && range.first + range.count == after->first) {
    range.count += after->second;
    after = free_.erase(after);
  }
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == range.first) {
      before->second += range.count;
      return;
    }
  }
  free_.emplace(range.first, range.count);
}

Result<SegmentRecord> LocalDirectory::allocate(ProcessId owner, std::uint64_t bytes, Deadline) {
  const sync::LockGuard lock(mutex_);
  bury_dead(lock);
  YONDER_TRY_VOID(check_alive(owner));
  if (bytes < kMinSegmentBytes || bytes > kMaxSegmentBytes)
    return fail(ErrorCode::kInvalidArgument, "directory: a segment has 64 KiB to 64 GiB",
                static_cast<std::int64_t>(bytes));
  YONDER_TRY(slots, take_slots(static_cast<std::uint32_t>((bytes + kSlotBytes - 1) / kSlotBytes)));
  const SegmentRecord record{.id = SegmentId(next_segment_++),
                             .slots = slots,
                             .bytes = bytes,
                             .owner = owner,
                             .target = ProcessId(0),
                             .epoch = Epoch(1),
                             .state = SegmentState::kOwned};
  segments_.emplace(record.id, record);
  return record;
}

Result<void> LocalDirectory::deallocate(ProcessId owner, SegmentId segment, Deadline) {
  const sync::LockGuard lock(mutex_);
  bury_dead(lock);
  const auto found = segments_.find(segment);
  if (found == segments_.end()) return fail(ErrorCode::kNotFound, "directory: no such segment");
  const SegmentRecord& record = found->second;
  if (record.state == SegmentState::kMoving)
    return fail(ErrorCode::kAlreadyExists, "directory: the segment is moving");
  if (record.state == SegmentState::kOwned && record.owner != owner)
    return fail(ErrorCode::kNotOwner, "directory: only its owner deallocates a segment",
                static_cast<std::int64_t>(record.owner.value()));
  free_slots(record.slots);
  segments_.erase(found);
  return {};
}

Result<SegmentRecord> LocalDirectory::find(SegmentId segment, Deadline) {
  const sync::LockGuard lock(mutex_);
  bury_dead(lock);
  const auto found = segments_.find(segment);
  if (found == segments_.end()) return fail(ErrorCode::kNotFound, "directory: no such segment");
  return found->second;
}

Result<std::vector<SegmentRecord>> LocalDirectory::list(SegmentId from, Deadline) {
  const sync::LockGuard lock(mutex_);
  bury_dead(lock);
  std::vector<SegmentRecord> listed;
  for (auto i = segments_.lower_bound(from); i != segments_.end() && listed.size() < kListed; ++i)
    listed.push_back(i->second);
  return listed;
}

Result<SegmentRecord> LocalDirectory::begin_move(SegmentId segment, ProcessId from, ProcessId to, Deadline) {
  const sync::LockGuard lock(mutex_);
  bury_dead(lock);
  YONDER_TRY_VOID(check_alive(from));
  YONDER_TRY(record, find_live(segment));
  if (record->owner != from)
    return fail(ErrorCode::kNotOwner, "directory: only its owner moves a segment",
                static_cast<std::int64_t>(record->owner.value()));
  if (record->state == SegmentState::kMoving)
    return fail(ErrorCode::kAlreadyExists, "directory: the segment is moving already",
                static_cast<std::int64_t>(record->target.value()));
  if (from == to || !processes_.contains(to))
    return fail(ErrorCode::kNotFound, "directory: no such target", static_cast<std::int64_t>(to.value()));
  record->state = SegmentState::kMoving;
  record->target = to;
  return *record;
}

Result<SegmentRecord> LocalDirectory::commit_move(const Move& move, Deadline) {
  const sync::LockGuard lock(mutex_);
  bury_dead(lock);
  YONDER_TRY_VOID(check_alive(move.from));
  YONDER_TRY(record, find_live(move.segment));
  // D2: a repetition.
  if (record->owner == move.to && record->target == move.from && record->epoch == next(move.epoch))
    return *record;
  if (record->state != SegmentState::kMoving || record->owner != move.from || record->target != move.to ||
      record->epoch != move.epoch) {
    return fail(ErrorCode::kNotFound, "directory: no such move",
                static_cast<std::int64_t>(move.segment.value()));
  }
  record->owner = move.to;
  record->target = move.from;
  record->epoch = next(move.epoch);
  record->state = SegmentState::kOwned;
  return *record;
}

Result<void> LocalDirectory::cancel_move(SegmentId segment, ProcessId by, Deadline) {
  const sync::LockGuard lock(mutex_);
  bury_dead(lock);
  YONDER_TRY(record, find_live(segment));
  if (record->state != SegmentState::kMoving || (record->owner != by && record->target != by)) return {};
  record->state = SegmentState::kOwned;
  record->target = ProcessId(0);
  return {};
}

bool LocalDirectory::check_invariants() {
  const sync::LockGuard lock(mutex_);
  std::map<std::uint32_t, std::uint32_t> ranges = free_;
  for (const auto& [id, record] : segments_) {
    if (!ranges.emplace(record.slots.first, record.slots.count).second) return false;
    if (record.state != SegmentState::kLost && !processes_.contains(record.owner)) return false;
  }
  std::uint32_t next_slot = 0;
  for (const auto& [first, count] : ranges) {
    if (first != next_slot) return false;
    next_slot += count;
  }
  return next_slot == options_.slots;
}

}  // namespace yonder::segment
