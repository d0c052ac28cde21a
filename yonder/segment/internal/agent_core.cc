#include "yonder/segment/internal/agent_core.h"

#include <utility>

#include "yonder/base/log.h"
#include "yonder/segment/internal/fault_router.h"
#include "yonder/segment/internal/places.h"

namespace yonder::segment {

using internal::Holding;
using internal::HoldingState;

namespace {

// After a Prepare the transfer comes in a few tens of microseconds: the poller that gets it
// must not have gone to sleep. Messages are rare, so spinning after each costs nothing.
constexpr Duration kPollerSpin = std::chrono::microseconds(300);

}  // namespace

Agent::Core::Core(fabric::Fabric& fabric, Arena& arena, Directory& directory, AgentOptions options)
    : fabric_(fabric),
      arena_(arena),
      directory_(directory),
      options_(std::move(options)),
      clock_(fabric.clock()) {}

Result<void> Agent::Core::start() {
  YONDER_TRY(listener, fabric_.listen({.address = options_.data_address, .passive = true}));
  data_listener_ = std::move(listener);
  YONDER_TRY(server, rpc::Server::create(fabric_, {.address = options_.address,
                                                   .pollers = 1,
                                                   .workers = 1,
                                                   .max_request = 8 * 1024,
                                                   .max_response = 8 * 1024,
                                                   .spin = kPollerSpin}));
  server_ = std::move(server);
  serve();
  YONDER_TRY_VOID(server_->start());
  YONDER_TRY(self, directory_.join(internal::told(server_->address()), or_default({})));
  self_ = self;
  ticker_ = std::jthread([this](const std::stop_token& stop) { tick_until(stop); });
  return {};
}

Agent::Core::~Core() {
  if (ticker_.joinable()) {
    ticker_.request_stop();
    ticker_.join();
  }
  if (server_ != nullptr) (void)server_->stop(or_default({}));
  std::vector<HoldingPtr> held;
  {
    const sync::LockGuard lock(mutex_);
    for (auto& [id, holding] : table_) held.push_back(holding);
  }
  for (const HoldingPtr& holding : held) {
    if (holding->mover.joinable()) {
      holding->mover.request_stop();
      holding->set_state(holding->current_state());  // Wakes it.
      holding->mover.join();
    }
    drop(holding);
  }
  held.clear();
  give_back_memory();
  if (self_ != ProcessId(0)) (void)directory_.leave(self_, or_default({}));
}

void Agent::Core::serve() {
  serve_source();
  serve_target();
  serve_keeper();
}

// ---------------------------------------------------------------- the table

Result<Agent::Core::HoldingPtr> Agent::Core::find(SegmentId segment) const {
  const sync::LockGuard lock(mutex_);
  const auto found = table_.find(segment);
  if (found == table_.end())
    return fail(ErrorCode::kNotFound, "no such segment in this process",
                static_cast<std::int64_t>(segment.value()));
  return found->second;
}

Result<Agent::Core::HoldingPtr> Agent::Core::find_owned(SegmentId segment) const {
  YONDER_TRY(holding, find(segment));
  switch (holding->current_state()) {
    case HoldingState::kLeaving:
    case HoldingState::kInDoubt:
      return fail(ErrorCode::kNotOwner, "the segment was transferred",
                  static_cast<std::int64_t>(segment.value()));
    case HoldingState::kExpected:
    case HoldingState::kGone:
      return fail(ErrorCode::kNotFound, "no such segment in this process",
                  static_cast<std::int64_t>(segment.value()));
    default:
      return holding;
  }
}

void Agent::Core::insert(HoldingPtr holding) {
  const sync::LockGuard lock(mutex_);
  const SegmentId id = holding->id;
  table_.emplace(id, std::move(holding));
}

void Agent::Core::drop(const HoldingPtr& holding) {
  {
    const sync::LockGuard lock(mutex_);
    const auto found = table_.find(holding->id);
    if (found == table_.end() || found->second != holding) return;
    table_.erase(found);
    // The ticker joins its mover, which may be the caller, and gives its memory back, which
    // takes time in proportion.
    ended_.push_back(holding);
  }
  std::shared_ptr<internal::Arrival> arrival;
  bool fenced = false;
  {
    const sync::LockGuard lock(holding->mutex);
    // What was fenced is a reservation already, and its slots may be another segment's.
    fenced = holding->state == HoldingState::kLeaving || holding->state == HoldingState::kInDoubt;
    holding->state = HoldingState::kGone;
    holding->region = fabric::Region();
    arrival = std::move(holding->arrival);
    holding->changed.notify_all();
  }
  if (arrival != nullptr) internal::FaultRouter::remove_server(holding->slots);
  arrival.reset();  // Before its memory goes.
  if (fenced) return;
  if (Result<void> cleared = arena_.clear(holding->slots); !cleared)
    log_warn("segment", "memory stays mapped",
             {{"segment", holding->id.value()}, {"error", cleared.error()}});
}

Segment Agent::Core::describe(Holding& holding) const {
  return {.id = holding.id, .memory = holding.seen(arena_), .epoch = holding.current_epoch()};
}

Result<std::shared_ptr<internal::PeerLine>> Agent::Core::line_to(ProcessId process, Deadline deadline) {
  {
    const sync::LockGuard lock(mutex_);
    if (const auto found = lines_.find(process); found != lines_.end()) return found->second;
  }
  YONDER_TRY(address, directory_.address_of(process, deadline));
  YONDER_TRY(reached, internal::dialled(address, options_.address));
  YONDER_TRY(connected, internal::PeerLine::connect(fabric_, reached));
  std::shared_ptr<internal::PeerLine> line = std::move(connected);
  const sync::LockGuard lock(mutex_);
  return lines_.emplace(process, std::move(line)).first->second;
}

void Agent::Core::forget_line(ProcessId process) {
  std::shared_ptr<internal::PeerLine> line;  // Closed without the lock.
  const sync::LockGuard lock(mutex_);
  if (const auto found = lines_.find(process); found != lines_.end()) {
    line = std::move(found->second);
    lines_.erase(found);
  }
}

// ---------------------------------------------------------------- allocation

Result<Segment> Agent::Core::allocate(Bytes bytes, Deadline deadline) {
  deadline = or_default(deadline);
  if (bytes.count() == 0 || bytes.count() > kMaxSegmentBytes)
    return fail(ErrorCode::kInvalidArgument, "allocate a segment of 64 KiB to 64 GiB",
                static_cast<std::int64_t>(bytes.count()));
  const std::uint64_t rounded = os::round_up(static_cast<std::size_t>(bytes.count()), os::kPageBytes);
  YONDER_TRY(record, directory_.allocate(self_, rounded, deadline));
  internal::FaultRouter::remove_notice(record.slots);
  Result<HoldingPtr> made = internal::make_holding(arena_, record);
  if (!made) {
    (void)directory_.deallocate(self_, record.id, deadline);
    return std::unexpected(made.error());
  }
  insert(*made);
  return describe(**made);
}

Result<void> Agent::Core::deallocate(SegmentId segment, Deadline deadline) {
  deadline = or_default(deadline);
  YONDER_TRY(holding, find_owned(segment));
  const HoldingState state = holding->current_state();
  if (state == HoldingState::kOffered)
    return fail(ErrorCode::kAlreadyExists, "deallocate: the segment is offered; cancel first");
  YONDER_TRY_VOID(directory_.deallocate(self_, segment, deadline));
  if (holding->mover.joinable()) {
    holding->mover.request_stop();
    holding->mover.join();  // It tells the source, if that is still needed.
  }
  drop(holding);
  return {};
}

Result<void> Agent::Core::release(SegmentId segment, ByteRange range) {
  YONDER_TRY(holding, find_owned(segment));
  if (holding->current_state() != HoldingState::kOwned)
    return fail(ErrorCode::kAlreadyExists, "release memory of a segment: it is moving");
  if (range.offset > holding->bytes || range.length > holding->bytes - range.offset)
    return fail(ErrorCode::kOutOfBounds, "release memory beyond a segment");
  const std::size_t first = os::round_up(static_cast<std::size_t>(range.offset), os::kPageBytes);
  const std::size_t end =
      os::round_down(static_cast<std::size_t>(range.offset + range.length), os::kPageBytes);
  if (first >= end) return {};
  return holding->file.punch_hole(first, end - first);
}

std::vector<Migration> Agent::Core::migrations() const {
  std::vector<HoldingPtr> held;
  {
    const sync::LockGuard lock(mutex_);
    for (const auto& [id, holding] : table_) held.push_back(holding);
  }
  std::vector<Migration> listed;
  for (const HoldingPtr& holding : held) {
    const sync::LockGuard lock(holding->mutex);
    Migration migration{.id = holding->id, .peer = holding->peer, .bytes = holding->bytes};
    switch (holding->state) {
      case HoldingState::kOffered:
        migration.state = MigrationState::kOffered;
        break;
      case HoldingState::kLeaving:
        migration.state = MigrationState::kLeaving;
        migration.bytes_left = holding->bytes - holding->bytes_told;
        break;
      case HoldingState::kInDoubt:
        migration.state = MigrationState::kInDoubt;
        break;
      case HoldingState::kExpected:
        migration.state = MigrationState::kExpected;
        break;
      case HoldingState::kArriving:
        migration.state = MigrationState::kArriving;
        if (holding->arrival == nullptr) break;  // All is here; the source is being told.
        if (holding->arrival->is_source_lost()) migration.state = MigrationState::kLost;
        // In this order: what is counted afterwards is without them.
        migration.counts_holes = !holding->arrival->knows_holes();
        migration.bytes_left = holding->arrival->missing_pages() * os::kPageBytes;
        migration.faults = holding->arrival->faults();
        break;
      default:
        continue;
    }
    listed.push_back(migration);
  }
  return listed;
}

}  // namespace yonder::segment
