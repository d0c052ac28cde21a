#pragma once
// Agent::Core: the table of segments, the connections to other agents, and the threads.
//
// Threads: one rpc poller (Prepare and Transfer, which must be quick), one rpc worker
// (offers and the rest, which map memory and connect), one mover per segment that is
// expected or arriving, and the ticker (lease, unclear matters, memory to unmap).
//
// Lock order: the table's lock, then a holding's; neither is held during a call to
// another process.
//
// Concurrency and lifetime: as Agent.

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <thread>
#include <unordered_map>
#include <vector>

#include "yonder/fabric/fabric.h"
#include "yonder/os/core_hop.h"
#include "yonder/rpc/server.h"
#include "yonder/segment/agent.h"
#include "yonder/segment/internal/holding.h"
#include "yonder/segment/internal/kept.h"
#include "yonder/segment/internal/peer_line.h"
#include "yonder/segment/internal/protocol.h"
#include "yonder/sync/mutex.h"

namespace yonder::segment {

class Agent::Core {
 public:
  using HoldingPtr = std::shared_ptr<internal::Holding>;

  Core(fabric::Fabric& fabric, Arena& arena, Directory& directory, AgentOptions options);
  ~Core();
  Result<void> start();

  ProcessId id() const { return self_; }
  const Clock& clock() const { return clock_; }
  Deadline or_default(Deadline deadline) const {
    return deadline.or_default(Deadline::after(clock_, options_.timeout));
  }

  Result<Segment> allocate(Bytes bytes, Deadline deadline);
  Result<void> deallocate(SegmentId segment, Deadline deadline);
  Result<void> release(SegmentId segment, ByteRange range);
  std::vector<Migration> migrations() const;

  // Source (agent_source.cc).
  Result<void> connect(SegmentId segment, ProcessId target, ConnectOptions options, Deadline deadline);
  Result<void> cancel(SegmentId segment, Deadline deadline);
  Result<Transferred> transfer(SegmentId segment, Deadline deadline,
                               const std::function<Result<void>()>& last_use);

  // Target (agent_target.cc).
  Result<Segment> receive(Deadline deadline);
  Result<void> pull(SegmentId segment, ByteRange range, Deadline deadline);
  Result<void> close(SegmentId segment, Deadline deadline);
  Result<std::vector<ByteRange>> missing(SegmentId segment) const;

 private:
  Result<HoldingPtr> find(SegmentId segment) const;
  // A segment that the application may use.
  Result<HoldingPtr> find_owned(SegmentId segment) const;
  void insert(HoldingPtr holding);
  // Takes it out of the table and unmaps it; its mover must have ended, or be the caller.
  void drop(const HoldingPtr& holding);
  Segment describe(internal::Holding& holding) const;
  Result<std::shared_ptr<internal::PeerLine>> line_to(ProcessId process, Deadline deadline);
  void forget_line(ProcessId process);

  void serve();
  void serve_source();
  void serve_target();

  // Source.
  Result<fabric::RegionToken> export_region(internal::Holding& holding);
  // Everybody who has a part in the pause is awake and has just done what it will do.
  Result<void> rehearse(internal::Holding& holding, ProcessId target, os::CoreHop& core, Deadline deadline);
  Result<void> fence(internal::Holding& holding);
  Result<void> commit(internal::Holding& holding, ProcessId target, Deadline deadline);
  // Returns when the target answers at once, or has been asked often enough.
  Result<void> wake_target(SegmentId segment, ProcessId target, os::CoreHop& core, Deadline deadline);
  void restore(internal::Holding& holding);
  // It stays fenced: what the fence left for later.
  void settle_fence(internal::Holding& holding);
  // Nothing without a keeper. Before the fence: one that is dead is found out here.
  Result<void> wake_keeper(internal::Holding& holding, Deadline deadline);
  // Nothing without a keeper. Between fence and commit (K1).
  Result<void> copy_to_keeper(internal::Holding& holding, Deadline deadline);
  // The move is off: directory, target and keeper are told.
  Result<void> withdraw(internal::Holding& holding, Deadline deadline);
  void tell_target(internal::Holding& holding, ProcessId target, Deadline deadline);
  Result<protocol::Ranges> answer_data_ranges(const protocol::DataRangesRequest& request);
  Result<rpc::Empty> take_arrived(const protocol::SegmentRanges& request);
  Result<rpc::Empty> take_close(const protocol::SegmentMessage& request);

  // A third process's part (agent_keeper.cc).
  void serve_keeper();
  Result<protocol::Place> take_keep(const rpc::Context& context, const protocol::KeepRequest& request);
  Result<rpc::Empty> take_keep_copy(const rpc::Context& context, const protocol::SegmentRanges& request);
  std::shared_ptr<internal::Kept> find_kept(SegmentId segment) const;  // null: it is not kept
  bool forget_kept(SegmentId segment);
  void look_after_kept();

  // Target.
  Result<rpc::Empty> take_offer(const rpc::Context& context, const protocol::OfferRequest& offer);
  Result<rpc::Empty> take_prepare(const rpc::Context& context, const protocol::SegmentMessage& request);
  Result<rpc::Empty> take_transfer(const rpc::Context& context, const protocol::TransferRequest& request);
  Result<rpc::Empty> take_withdraw(const protocol::SegmentMessage& request);
  Result<void> check_offer(const protocol::OfferRequest& offer, Deadline deadline);
  // The segment is ours from now on.
  void own(const HoldingPtr& holding, Epoch epoch);
  void hand_out(const Segment& segment);
  void move_in(const HoldingPtr& holding, const std::stop_token& stop);
  bool await_ownership(const HoldingPtr& holding, const std::stop_token& stop);
  bool ask_directory(const HoldingPtr& holding);
  void skip_holes(internal::Holding& holding, internal::Arrival& arrival);
  // False if the process does not say where there is data.
  bool skip_holes_by(ProcessId process, Deadline deadline, internal::Holding& holding,
                     internal::Arrival& arrival);
  Result<void> fill(internal::Holding& holding, internal::Arrival& arrival, const std::stop_token& stop);
  // All of it is here: from now on it is memory like any other.
  Result<void> finish(internal::Holding& holding);
  // The source need not keep it any more: it is told now, or by the ticker until it knows.
  void tell_source(SegmentId segment, ProcessId source);

  // Ticker (agent_ticker.cc).
  void tick_until(const std::stop_token& stop);
  void tick(std::uint64_t round);
  void resolve_doubt(const HoldingPtr& holding);
  void look_after_leaving(const HoldingPtr& holding);
  void report_arrived(const HoldingPtr& holding);
  void repeat_closings();
  // Unmaps and destroys what has ended.
  void give_back_memory();
  void unmap_later(os::Mapping mapping);

  fabric::Fabric& fabric_;
  Arena& arena_;
  Directory& directory_;
  const AgentOptions options_;
  const Clock& clock_;
  ProcessId self_;
  std::unique_ptr<rpc::Server> server_;
  std::unique_ptr<fabric::Listener> data_listener_;

  mutable sync::Mutex mutex_;
  std::map<SegmentId, HoldingPtr> table_ YONDER_GUARDED_BY(mutex_);
  std::map<SegmentId, std::shared_ptr<internal::Kept>> kept_ YONDER_GUARDED_BY(mutex_);
  std::unordered_map<ProcessId, std::shared_ptr<internal::PeerLine>> lines_ YONDER_GUARDED_BY(mutex_);
  std::vector<os::Mapping> to_unmap_ YONDER_GUARDED_BY(mutex_);
  std::vector<HoldingPtr> ended_ YONDER_GUARDED_BY(mutex_);  // to be destroyed
  struct Closing {
    SegmentId segment;
    ProcessId source;
  };
  std::vector<Closing> closings_ YONDER_GUARDED_BY(mutex_);  // not heard yet

  sync::Mutex received_mutex_;
  sync::Condition received_changed_;
  std::deque<Segment> received_ YONDER_GUARDED_BY(received_mutex_);

  std::jthread ticker_;  // Last: ends before what it uses.
};

}  // namespace yonder::segment
