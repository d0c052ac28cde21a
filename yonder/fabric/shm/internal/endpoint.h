#pragma once
// An endpoint of shm.
//
// Direct memory: a read or write is a lookup of the key, the hazard dance of
// region_table.h and a copy, inside post(); the completion waits in the queue
// before post() returns. Everything else becomes a Pending request.
//
// Messages. The receiver tells in shared memory how many receives it has posted
// and how long each is; so the sender knows, without asking, whether message n
// has a buffer and whether it fits. It sends only then, and the send is complete
// as soon as the message is in the ring: it will be placed when the receiver
// polls, and cannot fail any more. A send without a buffer waits here until its
// deadline and fails with kReceiverNotReady, and the peer never sees it.
// If the peer takes its receives from a shared queue, no buffer belongs to
// anybody before it is taken: the message is put into the ring, and the send
// completes when the peer has taken it, or, should the peer not be polling, when
// its shared queue has buffers. If it has none until the deadline the message is
// withdrawn (it may still arrive if a buffer is posted at that very moment).
//
// Order (E1): pending requests start in post order; direct and message requests
// wait for served ones before them. A message counts as executed when it is in
// the ring.
//
// Concurrency: the queue's thread, except where noted. Lifetime: see endpoint.h
// of the fabric; keeps its Link alive.

#include <array>
#include <bit>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "yonder/fabric/endpoint.h"
#include "yonder/fabric/fabric.h"
#include "yonder/fabric/shm/internal/completion_queue.h"
#include "yonder/fabric/shm/internal/key_table.h"
#include "yonder/fabric/shm/internal/link.h"
#include "yonder/fabric/shm/internal/link_model.h"
#include "yonder/fabric/shm/internal/pending.h"
#include "yonder/fabric/shm/internal/receive_queue.h"

namespace yonder::fabric::shm {

inline constexpr std::uint32_t kMaxInline = 256;
// Polls without an acknowledgement before the sender looks at the shared receive
// queue's notice line. A peer that is busy answers sooner, and the line, which
// changes with every message it takes, is left in its cache.
inline constexpr std::uint32_t kQuietRounds = 512;

struct EndpointParts {
  EndpointId id{0};
  EndpointOptions options;
  Limits limits;
  std::optional<LinkModel> model;
  // Called once, when the endpoint closes: drops the connection and stops
  // reconnecting.
  std::function<void(const std::shared_ptr<Link>&)> release;
  // The connection made last; absent if the endpoint does not reconnect.
  std::function<std::shared_ptr<Link>()> newest;
};

// Messages in the ring of a peer with a shared receive queue, oldest first.
struct Sent {
  std::uint64_t user_data = 0;
  Op op = Op::kSend;
  RequestFlags flags = RequestFlags::kNone;
  bool completed = false;
  std::uint32_t number = 0;  // MessageSender::is_consumed()
  std::uint32_t length = 0;
  std::int64_t deadline_ns = 0;  // 0: as in Pending
};
class SentQueue {
 public:
  explicit SentQueue(std::uint32_t depth) : mask_(std::bit_ceil(depth) - 1) {}
  bool empty() const { return head_ == tail_; }
  bool full() const { return tail_ - head_ > mask_; }
  Sent& front() { return entries_[head_ & mask_]; }
  void pop() { ++head_; }
  void push(const Sent& sent) {
    if (entries_.empty()) entries_.resize(std::size_t{mask_} + 1);
    entries_[tail_++ & mask_] = sent;
  }
  template <typename Visit>
  void for_each(Visit visit) {
    for (std::uint32_t i = head_; i != tail_; ++i) visit(entries_[i & mask_]);
  }
  void clear() { head_ = tail_; }

 private:
  const std::uint32_t mask_;
  std::uint32_t head_ = 0;
  std::uint32_t tail_ = 0;
  std::vector<Sent> entries_;  // Allocated by the first use.
};

class alignas(64) ShmEndpoint final : public Endpoint {
 public:
  // The completions were reserved in the queue. Any thread; the endpoint joins
  // its queue when the queue's thread reads its mail.
  ShmEndpoint(ShmCompletionQueue& queue, EndpointParts parts, std::shared_ptr<Link> link);
  ~ShmEndpoint() override { close(); }

  Result<void> post_receive(std::span<const ReceiveRequest> receives) override;
  void close() override;
  EndpointState state() const override { return state_; }
  const Limits& limits() const override { return limits_; }
  const Agreement& agreement() const override { return link_->parts().agreement; }
  std::span<const std::byte> greeting() const override { return link_->parts().greeting; }
  std::optional<Window> window(RegionKey key) override;

  // ------------------------------------------------ for the queue
  void on_attached();
  void on_mail(Mail& mail);
  void on_polled(Op op) {
    if (op >= Op::kReceive) {
      --receives_in_use_;
    } else {
      --in_flight_;
    }
  }
  void poll_messages() {
    if (state_ != EndpointState::kOpen) [[unlikely]]
      return;
    if (link_->receiver.has_message()) {
      take_messages();
    } else if (link_->receiver.has_news()) {
      publish_consumed();
    }
  }
  // Goes on with what is pending.
  void advance();
  // Completes what is past its deadline.
  void expire(Instant now);
  bool is_busy() const { return !pending_.empty() || !unacknowledged_.empty() || is_stalled_; }
  // When a sleeping queue must look at this busy endpoint again.
  Instant next_look(Instant now) const;

  bool in_busy_list = false;  // The queue's.

 private:
  enum class Outcome : std::uint8_t {
    kDone,     // completed
    kStale,    // the region has changed: ask again
    kBlocked,  // not now
    kIssued,   // handed to the target, answer outstanding
  };
  // Which part of which request a served slot holds.
  struct Part {
    std::uint32_t position = 0;
    std::uint64_t offset = 0;
    std::uint32_t length = 0;
  };

  Result<std::size_t> do_post(std::span<const WorkRequest> requests) override;
  Result<std::size_t> post_all(std::span<const WorkRequest> requests);

  // endpoint_direct.cc
  std::size_t execute_now(std::span<const WorkRequest> requests);
  void prefetch(std::span<const WorkRequest> requests) const;
  // The common case in as few instructions as possible, because what follows a
  // copy can only hide behind its cache misses while the processor's queues have
  // room: one piece, no flags, no deadline of its own, nothing wrong. False: not
  // that case, and nothing has happened (or a read that must be repeated).
  bool try_simple(const WorkRequest& request);
  Outcome try_now(const WorkRequest& request);
  Outcome access(const WorkRequest& request, const Attachment& region);
  Outcome write_and_announce(const WorkRequest& request, const Attachment& region);
  struct Accessed {
    ErrorCode status = ErrorCode::kOk;
    bool stale = false;
    std::uint64_t value = 0;
  };
  Accessed copy(const WorkRequest& request, const Attachment& region, std::uint64_t bytes) const;

  // endpoint_pending.cc
  Outcome step(Pending& pending, std::uint32_t position);
  Outcome step_one_sided(Pending& pending, std::uint32_t position);
  Outcome step_served(Pending& pending, std::uint32_t position);
  bool issue_part(Pending& pending, std::uint32_t position);
  void take_replies();
  void take_reply(const Part& part, std::uint32_t slot);
  Outcome finish(Pending& pending, ErrorCode status, std::uint64_t length = 0, std::uint64_t value = 0);
  void ask(RegionKey key);
  void on_resolved(Mail& mail);
  bool has_served() const { return next_request_ != next_reply_; }

  // endpoint_messages.cc
  // Whether a message of `length` bytes could go now; false with `status` set: never.
  bool can_send(std::uint32_t length, ErrorCode& status);
  Outcome try_send(const WorkRequest& request);
  // Tells the peer that `bytes` were written, and completes. Requires can_send(4).
  void send_written(const WorkRequest& request, std::uint64_t bytes);
  void send_now(const MessageHead& head, std::span<const LocalPiece> pieces, const WorkRequest& request,
                std::uint64_t bytes);
  void take_messages();
  bool take_message();
  bool take_buffer(ReceiveRequest& receive);
  void publish_consumed();
  void complete_consumed(bool peer_is_quiet);
  void expire_sent(Instant now);

  // endpoint.cc
  void complete(const WorkRequest& request, ErrorCode status, std::uint64_t length = 0,
                std::uint64_t value = 0);
  void complete_receive(const ReceiveRequest& receive, Op op, ErrorCode status, std::uint32_t length,
                        std::uint32_t immediate);
  void open();
  // Goes on with another connection, if it is another.
  void adopt(std::shared_ptr<Link> link);
  // The connection is lost. Does nothing if that is known already, so that what was
  // posted since waits for the next one.
  void lose();
  EndpointState after_loss() const { return newest_ ? EndpointState::kReconnecting : EndpointState::kBroken; }
  void drop_entry();
  void flush(ErrorCode status);
  void break_connection();

  ShmCompletionQueue& shm_queue_;
  const EndpointOptions options_;
  const Limits limits_;
  const std::function<void(const std::shared_ptr<Link>&)> release_;
  const std::function<std::shared_ptr<Link>()> newest_;
  ShmReceiveQueue* const shared_receives_;
  EndpointState state_ = EndpointState::kReconnecting;
  std::shared_ptr<Link> link_;                    // Never null; a lost one stays until the next.
  std::atomic<std::uint64_t>* hazard_ = nullptr;  // link_'s, for the data path
  bool fence_ = false;                            // link_'s
  bool holds_entry_ = false;                      // of the queue's board, for link_
  std::optional<PacedLink> paced_;
  KeyTable keys_;
  std::uint32_t in_flight_ = 0;        // requests accepted and not polled
  std::uint32_t receives_in_use_ = 0;  // receives posted and not polled

  PendingQueue pending_;
  bool asked_ = false;  // a Resolve is under way, for asked_key_
  RegionKey asked_key_;
  std::uint32_t next_request_ = 0;  // served slots: running numbers
  std::uint32_t next_reply_ = 0;
  std::array<Part, kSlots> parts_{};

  ReceiveRing receives_;
  std::uint32_t receives_posted_ = 0;  // told to the peer, on this link
  std::uint32_t messages_sent_ = 0;    // that take a receive of the peer, on this link
  std::uint32_t peer_posted_ = 0;      // what we know of the peer's receives
  SentQueue unacknowledged_;
  std::uint32_t quiet_rounds_ = 0;  // polls without an acknowledgement
  bool is_stalled_ = false;         // a message waits for a shared receive
};

}  // namespace yonder::fabric::shm
