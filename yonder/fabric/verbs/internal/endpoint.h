#pragma once
// An endpoint over a succession of links.
//
// The application sees one endpoint; underneath, queue pairs come and go:
//
//   phase        | link          | what happens
//   -------------+---------------+---------------------------------------------
//   kOpen        | up            | requests go to the NIC
//   kResuming    | being renewed | a refused access (ours or the peer's) broke the
//                |               | queue pair; requests and receives are kept
//   kReconnecting| dialed anew   | the peer was lost: what was outstanding failed
//   kBroken      | none          | everything fails with kConnectionLost
//   kClosed      | none          | post() says kClosed
//
//   kOpen ──refusal, failed queue pair──▶ kResuming ──link──▶ kOpen
//     │                                       │ refused, or too late
//     └──deadline, retries exhausted──▶ lost: kReconnecting or kBroken
//
// What is repeated. A request the target refused is the last one its queue pair
// executed: the requests behind it were certainly not executed and are posted
// again, in order, on the next link. When the queue pair failed for another
// reason (mostly: the peer's request was refused), requests that were with the NIC
// may have been executed. Reads are repeated. An accepting endpoint learns from
// the resuming peer how many messages it has taken, so the fate of its messages
// and of all before them is known. The first request that stays in doubt fails
// with kConnectionLost, and so do all behind it, because they may rely on it.
//
// Buffers (E3): requests only complete by the NIC's word or after their queue
// pair was destroyed.
//
// Concurrency: the queue's thread, except the factories. The service thread acts
// on links and seats only, and rings the bell.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "yonder/fabric/fabric.h"
#include "yonder/fabric/verbs/internal/completion_queue.h"
#include "yonder/fabric/verbs/internal/core.h"
#include "yonder/fabric/verbs/internal/link.h"
#include "yonder/fabric/verbs/internal/receive_slot.h"
#include "yonder/fabric/verbs/internal/seat.h"
#include "yonder/fabric/verbs/internal/send_ring.h"
#include "yonder/os/address.h"

namespace yonder::fabric::verbs {

class VerbsEndpoint final : public Endpoint {
 public:
  // Connects; blocks until options.connect_timeout at most.
  static Result<std::unique_ptr<Endpoint>> connect(Core& core, const ConnectOptions& options,
                                                   const os::SocketAddress& to, VerbsQueue& queue);
  // The accepting end of a connection that the service thread has made.
  static Result<std::unique_ptr<Endpoint>> accept(Core& core, std::shared_ptr<Seat> seat);
  // What endpoint options become on this device; kInvalidArgument for a depth of 0.
  static Result<Limits> limits_for(const Device& device, const EndpointOptions& options);

  ~VerbsEndpoint() override;

  Result<void> post_receive(std::span<const ReceiveRequest> receives) override;
  void close() override;
  EndpointState state() const override;
  const Limits& limits() const override { return limits_; }
  const Agreement& agreement() const override { return agreement_; }
  std::span<const std::byte> greeting() const override { return greeting_; }

  // ---- for the queue
  void on_send_done(SendSlot& slot, const ibv_wc& wc);
  void on_receive_done(ReceiveSlot& slot, const ibv_wc& wc);
  void on_shared_failure() { note_failure(); }
  void count_message() { ++messages_received_; }
  void recover_if_failed() {
    if (has_failed_) recover();
  }
  // The service thread changed a link or the seat.
  void on_attention();
  // Deadlines and reconnection; says when it wants to be called again.
  void on_time(Instant now);

 protected:
  Result<std::size_t> do_post(std::span<const WorkRequest> requests) override;

 private:
  enum class Phase : std::uint8_t { kOpen, kResuming, kReconnecting, kBroken, kClosed };
  struct Origin {  // Of an endpoint that dials.
    os::SocketAddress to;
    Identity identity;
    Duration connect_timeout;
    Duration min_backoff;
    Duration max_backoff;
    bool reconnect;
  };

  VerbsEndpoint(Core& core, VerbsQueue& queue, const EndpointOptions& options, const Limits& limits);
  Result<void> allocate();
  Result<void> connect_first();
  void show_to_queue();
  QpSpec spec() const;
  Link::Parts link_parts(std::shared_ptr<Bell> bell);
  ReceiveSlot::Parts receive_parts() { return {*core_.device, core_.regions, core_.pool}; }

  // ---- posting (endpoint_post.cc)
  bool prepare(const WorkRequest& request);
  void start_timers(std::uint64_t first);
  Result<void> stage(SendSlot& slot, const WorkRequest& request);
  void stage_own_memory(SendSlot& slot, const WorkRequest& request, std::byte* memory, std::uint32_t lkey);
  void stage_pieces(SendSlot& slot, const WorkRequest& request);
  Result<void> stage_registering(SendSlot& slot, const WorkRequest& request);
  void aim(SendSlot& slot);
  NicKey current_key(RegionKey key) const;
  void ring_doorbell();
  ibv_send_wr* chain_unposted();
  void post_receives_from(std::uint64_t first);

  // ---- completing (endpoint.cc)
  // Completes with success all up to `end` (exclusive) and pops them.
  void retire_until(std::uint64_t end);
  void succeed(SendSlot& slot);
  void fail_slot(SendSlot& slot, ErrorCode code);
  void release(SendSlot& slot);
  void pop_done();
  void complete_rejected();
  void fail_requests(ErrorCode code);
  void fail_receives(ErrorCode code);
  void note_failure();

  // ---- links (endpoint_recovery.cc)
  void recover();
  void end_link();
  void retire_ended(Link::Farewell farewell);
  void drain();
  const SendSlot* last_awaited();
  void settle_refused(SendSlot& refused);
  void settle_doubtful(std::optional<std::uint64_t> taken_by_peer);
  bool welcome_arrival();
  void take_messages_of(Link& skipped);
  void start_resume(const SendSlot* refused, Instant now);
  void lose();
  void adopt(std::shared_ptr<Link> link);
  void finish_dial();
  void dial_again(Instant now);
  void set_back_off(Instant now);
  void explain_refused(const Reply& reply);
  Result<void> greet(const Reply& reply);
  void check_deadlines(Instant now);

  Core& core_;
  VerbsQueue& verbs_queue_;
  const EndpointOptions options_;
  const Limits limits_;
  VerbsReceiveQueue* const shared_;
  Agreement agreement_;
  std::vector<std::byte> greeting_;
  std::optional<Origin> origin_;  // Set: we dialed, and dial again.
  std::shared_ptr<Seat> seat_;    // Set: we were dialed.
  SeatId seat_id_ = 0;

  Phase phase_ = Phase::kOpen;
  std::shared_ptr<Link> link_;        // Null unless kOpen.
  std::shared_ptr<Link> first_link_;  // Made by connect(), not adopted yet.
  std::shared_ptr<Link> dialing_;     // The next one, being made.
  // The one before, without queue pair: if its connection ended before the next
  // one stands, the peer would think that we had left.
  std::shared_ptr<Link> ended_;
  Instant phase_ends_;  // kResuming, or a dial: gives up then.
  Instant dial_at_;     // kReconnecting without dialing_.
  Duration backoff_{0};

  SendRing ring_;
  os::Mapping staging_;
  ibv_mr* staging_registration_ = nullptr;
  std::uint32_t silent_run_ = 0;     // Posted in a row without asking for a completion.
  std::uint32_t rejected_ = 0;       // Slots in state kRejected.
  std::uint64_t messages_done_ = 0;  // Messages of ours that the peer has taken.
  std::uint64_t unposted_ = 0;       // Slots from here on are not with the NIC.
  Instant earliest_deadline_ = Deadline::never().instant();
  std::unordered_map<std::uint64_t, RegionKey> rebound_;  // Keys that the NIC knows under another one.

  std::vector<ReceiveSlot> receives_;  // A ring of receive_depth; none with a shared queue.
  std::uint64_t receives_head_ = 0;
  std::uint64_t receives_tail_ = 0;
  std::uint64_t messages_received_ = 0;

  // Of the failing link.
  bool has_failed_ = false;
  SendSlot* culprit_ = nullptr;  // The first request that failed by itself.
  ibv_wc_status culprit_status_ = IBV_WC_SUCCESS;
  const SendSlot* last_flushed_ = nullptr;
  const void* last_flushed_receive_ = nullptr;
};

}  // namespace yonder::fabric::verbs
