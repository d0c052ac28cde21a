// The source's part: offer, fence, commit, and keep the bytes until they were read.

#include <utility>

#include "yonder/base/log.h"
#include "yonder/segment/internal/agent_core.h"
#include "yonder/segment/internal/fault_router.h"
#include "yonder/segment/internal/places.h"

namespace yonder::segment {

using internal::Holding;
using internal::HoldingState;

namespace {

// The call may have been executed, or can be tried again.
bool is_unclear(ErrorCode code) {
  switch (code) {
    case ErrorCode::kDeadlineExceeded:
    case ErrorCode::kConnectionLost:
    case ErrorCode::kConnectionRefused:
    case ErrorCode::kStopping:
    case ErrorCode::kOverloaded:
    case ErrorCode::kQueueFull:
      return true;
    default:
      return false;
  }
}

// A process that is awake on a core of its own answers a Prepare in less; over sockets it
// takes two system calls on either side. One that was woken takes 25 to 80 us, and so does one
// that shares our core.
constexpr Duration kAwakeHere = std::chrono::microseconds(25);
constexpr Duration kAwakeElsewhere = std::chrono::microseconds(40);
// So long takes an answer that had to wait for our core: two that spin on one core have it in
// turns, most of a millisecond each. Over a slow network every answer takes so long; who hops
// because of that has lost nothing.
constexpr Duration kSharedHere = std::chrono::microseconds(60);
constexpr Duration kSharedElsewhere = std::chrono::microseconds(250);
constexpr int kWakings = 8;
// The first round wakes and takes long enough for some to fall asleep again; in the second all
// is quick; the third is for what a large segment has pushed out of the caches.
constexpr int kRehearsals = 3;

// Ranges for an offer may be rough: they only make room.
constexpr std::uint64_t kRoughGap = 128 << 10;

}  // namespace

void Agent::Core::serve_source() {
  namespace p = protocol;
  const rpc::MethodOptions worker{.run = rpc::Run::kWorker};
  server_->handle<p::DataRanges>(
      [this](const rpc::Context&, const p::DataRangesRequest& request) {
        return answer_data_ranges(request);
      },
      worker);
  server_->handle<p::Arrived>(
      [this](const rpc::Context&, const p::SegmentRanges& request) { return take_arrived(request); }, worker);
  server_->handle<p::Close>(
      [this](const rpc::Context&, const p::SegmentMessage& request) { return take_close(request); }, worker);
}

// ---------------------------------------------------------------- offer

Result<fabric::RegionToken> Agent::Core::export_region(Holding& holding) {
  YONDER_TRY(room, Arena::make_room(holding.slots));
  YONDER_TRY(region, fabric_.register_memory({.memory = holding.second.bytes(),
                                              .rights = fabric::Rights::kRead,
                                              .backing = fabric::Backing{.fd = holding.file.fd().get()}}));
  const fabric::RegionToken token = region.token();
  const sync::LockGuard lock(holding.mutex);
  holding.room = std::move(room);
  holding.region = std::move(region);
  return token;
}

Result<void> Agent::Core::connect(SegmentId segment, ProcessId target, ConnectOptions options,
                                  Deadline deadline) {
  deadline = or_default(deadline);
  YONDER_TRY(holding, find_owned(segment));
  if (holding->current_state() != HoldingState::kOwned)
    return fail(ErrorCode::kAlreadyExists, "connect: the segment is already moving");
  const ProcessId keeper = options.keep_until_complete;
  if (keeper != ProcessId(0) && (keeper == self_ || keeper == target))
    return fail(ErrorCode::kInvalidArgument, "connect: only a third process can keep a copy");
  YONDER_TRY(record, directory_.begin_move(segment, self_, target, deadline));
  const auto offer = [&]() -> Result<void> {
    YONDER_TRY(token, export_region(*holding));
    const protocol::Place place{internal::told(data_listener_->address()), token};
    protocol::Place copy;
    if (keeper != ProcessId(0)) {
      YONDER_TRY(line, line_to(keeper, deadline));
      YONDER_TRY(kept, line->call<protocol::Keep>({record, place}, deadline));
      copy = std::move(kept);
    }
    YONDER_TRY(rough,
               internal::data_ranges(holding->file, {.limit = protocol::kMaxRanges, .join = kRoughGap}));
    YONDER_TRY(line, line_to(target, deadline));
    YONDER_TRY_VOID(line->call<protocol::Offer>({.record = record,
                                                 .source = place,
                                                 .release_early = options.release_early,
                                                 .data = {std::move(rough)},
                                                 .keeper = keeper,
                                                 .copy = std::move(copy)},
                                                deadline));
    return {};
  };
  if (Result<void> offered = offer(); !offered) {
    if (is_unclear(offered.error().code())) {
      forget_line(target);
      forget_line(keeper);
    }
    (void)directory_.cancel_move(segment, self_, deadline);
    const sync::LockGuard lock(holding->mutex);
    holding->region = fabric::Region();
    return offered;
  }
  const sync::LockGuard lock(holding->mutex);
  holding->epoch = record.epoch;
  holding->peer = target;
  holding->keeper = keeper;
  holding->bytes_told = 0;
  holding->state = HoldingState::kOffered;
  return {};
}

Result<void> Agent::Core::cancel(SegmentId segment, Deadline deadline) {
  deadline = or_default(deadline);
  YONDER_TRY(holding, find_owned(segment));
  if (holding->current_state() != HoldingState::kOffered) return {};
  YONDER_TRY_VOID(withdraw(*holding, deadline));
  const sync::LockGuard lock(holding->mutex);
  holding->region = fabric::Region();
  holding->room = os::Mapping();
  holding->state = HoldingState::kOwned;
  return {};
}

Result<void> Agent::Core::withdraw(Holding& holding, Deadline deadline) {
  YONDER_TRY_VOID(directory_.cancel_move(holding.id, self_, deadline));
  // If target and keeper do not hear it now, they find out from the directory.
  if (Result<std::shared_ptr<internal::PeerLine>> line = line_to(holding.current_peer(), deadline))
    (void)(*line)->call<protocol::Withdraw>({holding.id}, deadline);
  const ProcessId keeper = holding.current_keeper();
  if (keeper == ProcessId(0)) return {};
  if (Result<std::shared_ptr<internal::PeerLine>> line = line_to(keeper, deadline))
    (void)(*line)->call<protocol::Close>({holding.id}, deadline);
  return {};
}

// ---------------------------------------------------------------- transfer

Result<void> Agent::Core::fence(Holding& holding) {
  Result<os::Mapping> moved = arena_.fence(holding.slots, holding.take_room());
  if (!moved) return std::unexpected(moved.error());
  holding.set_room(std::move(*moved));  // Unmapped when nobody waits.
  return {};
}

void Agent::Core::settle_fence(Holding& holding) {
  unmap_later(holding.take_room());
  // The target may have deallocated it by now, and its slots may be another segment's.
  if (const Result<void> kept = arena_.keep(holding.slots); !kept)
    log_warn("segment", "slots of a segment that has left are not reserved",
             {{"segment", holding.id.value()}, {"error", kept.error()}});
}

void Agent::Core::restore(Holding& holding) {
  const Result<void> mapped = arena_.map(holding.slots, holding.file);
  YONDER_CHECK(mapped.has_value(), "a segment that was not transferred can be mapped again");
  internal::FaultRouter::remove_notice(holding.slots);
  const sync::LockGuard lock(holding.mutex);
  holding.region = fabric::Region();
  holding.state = HoldingState::kOwned;
}

// S3: asks until it knows, or the deadline passes.
Result<void> Agent::Core::commit(Holding& holding, ProcessId target, Deadline deadline) {
  const Move move{holding.id, self_, target, holding.current_epoch()};
  for (;;) {
    const Result<SegmentRecord> committed = directory_.commit_move(move, deadline);
    if (committed) {
      holding.set_epoch(committed->epoch);
      return {};
    }
    if (!is_unclear(committed.error().code()) || deadline.passed(clock_.now()))
      return std::unexpected(committed.error());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void Agent::Core::tell_target(Holding& holding, ProcessId target, Deadline deadline) {
  Result<std::shared_ptr<internal::PeerLine>> line = line_to(target, deadline);
  const Result<rpc::Empty> told =
      line ? (*line)->call<protocol::Transfer>({holding.id, holding.current_epoch()}, deadline)
           : Result<rpc::Empty>(std::unexpected(line.error()));
  if (told) return;
  // S2: the target asks the directory.
  forget_line(target);
  log_warn("segment", "target did not hear of its transfer",
           {{"segment", holding.id.value()}, {"target", target.value()}, {"error", told.error()}});
}

Result<void> Agent::Core::wake_target(SegmentId segment, ProcessId target, os::CoreHop& core,
                                      Deadline deadline) {
  YONDER_TRY(line, line_to(target, deadline));
  const bool same_host = fabric_.capabilities().provider == "shm";
  const Duration awake = same_host ? kAwakeHere : kAwakeElsewhere;
  const Duration shared = same_host ? kSharedHere : kSharedElsewhere;
  for (int i = 0; i < kWakings; ++i) {
    const Instant asked = clock_.now();
    YONDER_TRY_VOID(line->call<protocol::Prepare>({segment}, deadline));
    const Duration taken = clock_.now() - asked;
    if (taken < awake) break;
    // The first answer is late because somebody slept.
    if (i > 0 && taken > shared) core.hop();
  }
  return {};
}

// Whoever sleeps costs a wake-up, and code and data that were not used for a while cost a miss
// each: after seconds of other work that was half of the pause. So everybody goes through its
// part before it counts; the fence last, because its way is the longest.
Result<void> Agent::Core::rehearse(Holding& holding, ProcessId target, os::CoreHop& core, Deadline deadline) {
  YONDER_TRY_VOID(wake_keeper(holding, deadline));
  for (int i = 0; i < kRehearsals; ++i) {
    YONDER_TRY_VOID(directory_.find(holding.id, deadline));
    YONDER_TRY_VOID(wake_target(holding.id, target, core, deadline));
    arena_.rehearse_fence(holding.slots);  // After the hops, which leave cores.
  }
  return {};
}

Result<Transferred> Agent::Core::transfer(SegmentId segment, Deadline deadline,
                                          const std::function<Result<void>()>& last_use) {
  deadline = or_default(deadline);
  YONDER_TRY(holding, find_owned(segment));
  if (holding->current_state() != HoldingState::kOffered)
    return fail(ErrorCode::kNotFound, "transfer: connect the segment to a target first");
  const ProcessId target = holding->current_peer();
  os::CoreHop core;
  YONDER_TRY_VOID(rehearse(*holding, target, core, deadline));
  if (last_use) YONDER_TRY_VOID(last_use());

  // Before it is true, but nobody can fault there yet.
  internal::FaultRouter::set_notice(holding->slots, segment, target, next(holding->current_epoch()));
  const Instant fenced_at = clock_.now();
  if (Result<void> fenced = fence(*holding); !fenced) {
    internal::FaultRouter::remove_notice(holding->slots);
    return std::unexpected(fenced.error());
  }
  if (Result<void> kept = copy_to_keeper(*holding, deadline); !kept) {
    unmap_later(holding->take_room());
    restore(*holding);
    (void)withdraw(*holding, deadline);
    return std::unexpected(kept.error());
  }
  if (Result<void> committed = commit(*holding, target, deadline); !committed) {
    if (is_unclear(committed.error().code())) {
      settle_fence(*holding);
      holding->set_state(HoldingState::kInDoubt);
    } else {
      unmap_later(holding->take_room());
      restore(*holding);
    }
    return std::unexpected(committed.error());
  }
  holding->set_state(HoldingState::kLeaving);
  tell_target(*holding, target, deadline);
  settle_fence(*holding);
  return Transferred{.fenced_at = fenced_at, .epoch = holding->current_epoch()};
}

// ---------------------------------------------------------------- while it is read

Result<protocol::Ranges> Agent::Core::answer_data_ranges(const protocol::DataRangesRequest& request) {
  if (const std::shared_ptr<internal::Kept> kept = find_kept(request.segment)) {
    YONDER_TRY(ranges,
               internal::data_ranges(kept->file, {.from = request.from, .limit = protocol::kMaxRanges}));
    return protocol::Ranges{std::move(ranges)};
  }
  YONDER_TRY(holding, find(request.segment));
  if (holding->current_state() != HoldingState::kLeaving)
    return fail(ErrorCode::kNotFound, "data ranges of a segment that is not leaving");
  YONDER_TRY(ranges,
             internal::data_ranges(holding->file, {.from = request.from, .limit = protocol::kMaxRanges}));
  return protocol::Ranges{std::move(ranges)};
}

Result<rpc::Empty> Agent::Core::take_arrived(const protocol::SegmentRanges& request) {
  YONDER_TRY(holding, find(request.segment));
  if (holding->current_state() != HoldingState::kLeaving)
    return fail(ErrorCode::kNotFound, "a segment arrives that is not leaving");
  for (const ByteRange& range : request.ranges.ranges) {
    if (range.offset % os::kPageBytes != 0 || range.length % os::kPageBytes != 0 ||
        range.offset + range.length > holding->file.size()) {
      return fail(ErrorCode::kOutOfBounds, "a segment arrives beyond its end");
    }
    YONDER_TRY_VOID(holding->file.punch_hole(range.offset, range.length));
    const sync::LockGuard lock(holding->mutex);
    holding->bytes_told += range.length;
  }
  return rpc::Empty{};
}

Result<rpc::Empty> Agent::Core::take_close(const protocol::SegmentMessage& request) {
  if (forget_kept(request.segment)) return rpc::Empty{};
  YONDER_TRY(holding, find(request.segment));
  switch (holding->current_state()) {
    case HoldingState::kLeaving:
      drop(holding);
      return rpc::Empty{};
    case HoldingState::kOffered:
    case HoldingState::kInDoubt:
      // The target heard of the commit from the directory, and before us.
      return fail(ErrorCode::kOverloaded, "close: the source does not know yet that the segment has left");
    default:
      return fail(ErrorCode::kNotFound, "close a segment that is not leaving");
  }
}

}  // namespace yonder::segment
