// The target's part: make room, own, and bring the bytes.

#include <algorithm>
#include <utility>

#include "yonder/base/log.h"
#include "yonder/segment/internal/agent_core.h"
#include "yonder/segment/internal/fault_router.h"
#include "yonder/segment/internal/places.h"

namespace yonder::segment {

using internal::Arrival;
using internal::Holding;
using internal::HoldingState;

namespace {

// A source that does not hear in this time is told again by the ticker.
constexpr Duration kCloseTimeout = std::chrono::milliseconds(500);

}  // namespace

void Agent::Core::serve_target() {
  namespace p = protocol;
  const rpc::MethodOptions worker{.run = rpc::Run::kWorker};
  server_->handle<p::Offer>([this](const rpc::Context& context,
                                   const p::OfferRequest& offer) { return take_offer(context, offer); },
                            worker);
  server_->handle<p::Withdraw>(
      [this](const rpc::Context&, const p::SegmentMessage& request) { return take_withdraw(request); },
      worker);
  server_->handle<p::Prepare>([this](const rpc::Context& context, const p::SegmentMessage& request) {
    return take_prepare(context, request);
  });
  server_->handle<p::Transfer>([this](const rpc::Context& context, const p::TransferRequest& request) {
    return take_transfer(context, request);
  });
}

// ---------------------------------------------------------------- offer

// A peer's word is not enough to map memory: the directory must know of the move.
Result<void> Agent::Core::check_offer(const protocol::OfferRequest& offer, Deadline deadline) {
  YONDER_TRY(record, directory_.find(offer.record.id, deadline));
  if (record.state != SegmentState::kMoving || record.target != self_ || record != offer.record)
    return fail(ErrorCode::kNotFound, "an offer that the directory does not know");
  if (const Result<HoldingPtr> here = find(offer.record.id)) {
    if ((*here)->current_state() != HoldingState::kLeaving)
      return fail(ErrorCode::kAlreadyExists, "an offer of a segment that is here");
    // It left from here, and comes back: who offers it has all of it.
    drop(*here);
  }
  const Offered offered{.id = record.id, .source = record.owner, .bytes = record.bytes};
  if (options_.consent && !options_.consent(offered))
    return fail(ErrorCode::kDeclined, "an offered segment is not wanted");
  return {};
}

Result<rpc::Empty> Agent::Core::take_offer(const rpc::Context& context, const protocol::OfferRequest& offer) {
  YONDER_TRY_VOID(check_offer(offer, context.deadline()));
  YONDER_TRY(holding, internal::make_holding(arena_, offer.record));
  const auto prepare = [&]() -> Result<void> {
    if (options_.receive.make_room) {
      for (const ByteRange& range : offer.data.ranges) {
        if (range.offset + range.length > holding->file.size())
          return fail(ErrorCode::kOutOfBounds, "an offer with data beyond its end");
        YONDER_TRY_VOID(holding->second.populate_write(range.offset, range.length));
      }
    }
    YONDER_TRY(source, internal::dialled(offer.source.address, options_.data_address));
    std::vector<Arrival::Source> sources = {{std::move(source), offer.source.region}};
    if (offer.keeper != ProcessId(0)) {
      YONDER_TRY(copy, internal::dialled(offer.copy.address, options_.data_address));
      sources.push_back({std::move(copy), offer.copy.region});
    }
    const bool same_host = fabric_.capabilities().provider == "shm";
    YONDER_TRY(arrival, Arrival::open(fabric_, sources,
                                      {.seen = holding->seen(arena_), .filled = holding->second.bytes()},
                                      {.pull_on_touch = options_.receive.pull_on_touch,
                                       .dense_pages = same_host ? 64u : 0u,
                                       .source_timeout = options_.receive.source_timeout}));
    const sync::LockGuard lock(holding->mutex);
    holding->arrival = std::move(arrival);
    holding->release_early = offer.release_early;
    holding->offered_on = context.connection;
    holding->peer = offer.record.owner;
    holding->keeper = offer.keeper;
    holding->state = HoldingState::kExpected;
    return {};
  };
  if (Result<void> prepared = prepare(); !prepared) {
    (void)arena_.clear(holding->slots);
    return std::unexpected(prepared.error());
  }
  internal::FaultRouter::remove_notice(holding->slots);
  holding->mover = std::jthread([this, holding](const std::stop_token& stop) { move_in(holding, stop); });
  insert(holding);
  return rpc::Empty{};
}

Result<rpc::Empty> Agent::Core::take_withdraw(const protocol::SegmentMessage& request) {
  YONDER_TRY(holding, find(request.segment));
  const sync::LockGuard lock(holding->mutex);
  if (holding->state != HoldingState::kExpected) return fail(ErrorCode::kNotFound, "withdraw a segment");
  holding->mover.request_stop();
  holding->changed.notify_all();
  return rpc::Empty{};
}

// ---------------------------------------------------------------- transfer

// It has woken the poller. The rest is what the transfer will need, for the caches; whether it is
// welcome is decided then.
Result<rpc::Empty> Agent::Core::take_prepare(const rpc::Context& context,
                                             const protocol::SegmentMessage& request) {
  const Result<HoldingPtr> holding = find(request.segment);
  if (!holding) return rpc::Empty{};
  const sync::LockGuard lock((*holding)->mutex);
  if ((*holding)->state == HoldingState::kExpected && (*holding)->offered_on == context.connection)
    internal::FaultRouter::warm((*holding)->slots);
  return rpc::Empty{};
}

Result<rpc::Empty> Agent::Core::take_transfer(const rpc::Context& context,
                                              const protocol::TransferRequest& request) {
  YONDER_TRY(holding, find(request.segment));
  {
    const sync::LockGuard lock(holding->mutex);
    // It may have asked the directory before it was told.
    if (holding->state == HoldingState::kArriving || holding->state == HoldingState::kOwned)
      return rpc::Empty{};
    if (holding->state != HoldingState::kExpected || holding->offered_on != context.connection ||
        request.epoch != next(holding->epoch)) {
      return fail(ErrorCode::kNotFound, "a transfer that was not offered");
    }
  }
  own(holding, request.epoch);
  return rpc::Empty{};
}

void Agent::Core::own(const HoldingPtr& holding, Epoch epoch) {
  {
    const sync::LockGuard lock(holding->mutex);
    if (holding->state != HoldingState::kExpected) return;
    internal::FaultRouter::set_server(holding->slots, *holding->arrival);
    holding->epoch = epoch;
    holding->state = HoldingState::kArriving;
  }
  hand_out(describe(*holding));
  holding->changed.notify_all();
}

void Agent::Core::hand_out(const Segment& segment) {
  if (options_.on_received) {
    options_.on_received(segment);
    return;
  }
  const sync::LockGuard lock(received_mutex_);
  received_.push_back(segment);
  received_changed_.notify_one();
}

Result<Segment> Agent::Core::receive(Deadline deadline) {
  deadline = or_default(deadline);
  sync::LockGuard lock(received_mutex_);
  while (received_.empty()) {
    if (!received_changed_.wait(lock, deadline) && received_.empty())
      return fail(ErrorCode::kDeadlineExceeded, "receive a segment");
  }
  const Segment segment = received_.front();
  received_.pop_front();
  return segment;
}

// ---------------------------------------------------------------- the mover

void Agent::Core::move_in(const HoldingPtr& holding, const std::stop_token& stop) {
  if (!await_ownership(holding, stop)) {
    drop(holding);
    return;
  }
  const std::shared_ptr<Arrival> arrival = holding->current_arrival();
  skip_holes(*holding, *arrival);
  arrival->end_of_holes();
  const Result<void> filled = fill(*holding, *arrival, stop);
  if (!filled) {
    log_error("segment", "source died before all had arrived",
              {{"segment", holding->id.value()},
               {"missing_bytes", arrival->missing_pages() * os::kPageBytes},
               {"error", filled.error()}});
    return;
  }
  if (arrival->is_complete() && !finish(*holding)) return;
  // Also when the segment is dropped.
  tell_source(holding->id, holding->current_peer());
  if (const ProcessId keeper = holding->current_keeper(); keeper != ProcessId(0))
    tell_source(holding->id, keeper);
  const sync::LockGuard lock(holding->mutex);
  if (holding->state == HoldingState::kArriving && arrival->is_complete())
    holding->state = HoldingState::kOwned;
  holding->changed.notify_all();
}

void Agent::Core::tell_source(SegmentId segment, ProcessId source) {
  const Deadline deadline = Deadline::after(clock_, kCloseTimeout);
  Result<std::shared_ptr<internal::PeerLine>> line = line_to(source, deadline);
  const Result<rpc::Empty> closed = line ? (*line)->call<protocol::Close>({segment}, deadline)
                                         : Result<rpc::Empty>(std::unexpected(line.error()));
  // Not found: it is dead, or has nothing of it any more.
  if (closed || closed.error() == ErrorCode::kNotFound) return;
  if (closed.error() != ErrorCode::kOverloaded) forget_line(source);
  const sync::LockGuard lock(mutex_);
  closings_.push_back({segment, source});
}

bool Agent::Core::await_ownership(const HoldingPtr& holding, const std::stop_token& stop) {
  int quiet = 0;
  for (;;) {
    {
      sync::LockGuard lock(holding->mutex);
      if (holding->state == HoldingState::kArriving) return true;
      if (stop.stop_requested()) return false;
      if (holding->changed.wait(lock, Deadline::after(clock_, options_.tick))) continue;
    }
    // Nothing was heard for a while: a source that died after its commit says nothing.
    if (++quiet >= 3 && !ask_directory(holding)) return false;
  }
}

// False if the segment will not come.
bool Agent::Core::ask_directory(const HoldingPtr& holding) {
  const Result<SegmentRecord> record = directory_.find(holding->id, or_default({}));
  if (!record) return record.error() != ErrorCode::kNotFound;
  if (record->state == SegmentState::kMoving) return record->target == self_;
  if (record->state != SegmentState::kOwned || record->owner != self_) return false;
  own(holding, record->epoch);
  return true;
}

void Agent::Core::skip_holes(Holding& holding, Arrival& arrival) {
  // Where nobody tells, holes are read like data.
  const ProcessId keeper = holding.current_keeper();
  const bool kept = keeper != ProcessId(0);
  const Deadline first = kept ? Deadline::after(clock_, internal::kNextSourceAfter) : or_default({});
  if (skip_holes_by(holding.current_peer(), first, holding, arrival) || !kept) return;
  (void)skip_holes_by(keeper, or_default({}), holding, arrival);
}

bool Agent::Core::skip_holes_by(ProcessId process, Deadline deadline, Holding& holding, Arrival& arrival) {
  Result<std::shared_ptr<internal::PeerLine>> line = line_to(process, deadline);
  if (!line) return false;
  std::uint64_t from = 0;
  for (;;) {
    const Result<protocol::Ranges> data = (*line)->call<protocol::DataRanges>({holding.id, from}, deadline);
    if (!data) return false;
    for (const ByteRange& range : data->ranges) {
      if (range.offset > from) arrival.mark_zero({from, range.offset - from});
      from = range.offset + range.length;
    }
    if (data->ranges.size() < protocol::kMaxRanges) break;
  }
  if (from < holding.bytes) arrival.mark_zero({from, holding.bytes - from});
  return true;
}

Result<void> Agent::Core::fill(Holding& holding, Arrival& arrival, const std::stop_token& stop) {
  if (options_.receive.prefetch) {
    const bool same_host = fabric_.capabilities().provider == "shm";
    YONDER_TRY_VOID(arrival.prefetch(
        {.bytes_per_second = options_.receive.prefetch_bytes_per_second, .yields = !same_host}, stop));
    return {};
  }
  while (!arrival.is_complete() && !stop.stop_requested()) {
    if (arrival.is_source_lost()) return fail(ErrorCode::kSegmentLost, "fill a segment");
    sync::LockGuard lock(holding.mutex);
    (void)holding.changed.wait(lock, Deadline::after(clock_, options_.tick));
  }
  return {};
}

Result<void> Agent::Core::finish(Holding& holding) {
  std::shared_ptr<Arrival> arrival;
  {
    const sync::LockGuard lock(holding.mutex);
    if (holding.arrival == nullptr) return {};
    if (Result<void> finished = holding.arrival->finish(); !finished) {
      log_warn("segment", "faults stay ours", {{"segment", holding.id.value()}, {"error", finished.error()}});
      return finished;
    }
    arrival = std::move(holding.arrival);
  }
  internal::FaultRouter::remove_server(holding.slots);
  return {};
}

// ---------------------------------------------------------------- pulls

Result<void> Agent::Core::pull(SegmentId segment, ByteRange range, Deadline deadline) {
  YONDER_TRY(holding, find_owned(segment));
  const std::shared_ptr<Arrival> arrival = holding->current_arrival();
  if (arrival == nullptr) return {};
  return arrival->pull(range, or_default(deadline));
}

Result<void> Agent::Core::close(SegmentId segment, Deadline deadline) {
  deadline = or_default(deadline);
  YONDER_TRY(holding, find_owned(segment));
  if (holding->current_state() == HoldingState::kOffered)
    return fail(ErrorCode::kAlreadyExists, "close: the segment is offered; cancel first");
  if (const std::shared_ptr<Arrival> arrival = holding->current_arrival())
    YONDER_TRY_VOID(arrival->pull({0, holding->bytes}, deadline));
  sync::LockGuard lock(holding->mutex);
  holding->changed.notify_all();
  while (holding->state == HoldingState::kArriving) {
    if (!holding->changed.wait(lock, deadline)) return fail(ErrorCode::kDeadlineExceeded, "close a segment");
  }
  return {};
}

Result<std::vector<ByteRange>> Agent::Core::missing(SegmentId segment) const {
  YONDER_TRY(holding, find_owned(segment));
  const std::shared_ptr<Arrival> arrival = holding->current_arrival();
  if (arrival == nullptr) return std::vector<ByteRange>{};
  return arrival->missing();
}

}  // namespace yonder::segment
