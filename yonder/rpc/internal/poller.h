#pragma once
// A poller: one completion queue, the connections on it, and the thread that
// serves them (or, in a driven server, whoever calls step()).
//
// The way of a request: a receive completes (on_receive) → its connection and
// method are found and it is admitted or refused → an exchange is taken → the
// handler runs here, or the request goes to the work queue → the answer comes
// back (answer) → it is sent, inline if it is short. Answers that are made in one
// step() leave with one doorbell per connection.
//
// Concurrency: step(), rest() and everything private by the one thread that
// drives it. Other threads: on_finished(), hand_over(), wake(), drained(), stats().
// Lifetime: owns queue, exchanges and connections. Operations point
// into it, so the queue is never polled after it is gone.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/fabric/fabric.h"
#include "yonder/rpc/internal/connection.h"
#include "yonder/rpc/internal/exchange.h"
#include "yonder/rpc/internal/receive_pool.h"
#include "yonder/rpc/internal/server_core.h"
#include "yonder/sync/mpsc_queue.h"
#include "yonder/sync/mutex.h"

namespace yonder::rpc {

// Not in one cache line with anything that a client on another core writes.
class alignas(sync::kNoSharingBytes) Poller {
 public:
  Poller(ServerCore& core, std::unique_ptr<fabric::CompletionQueue> queue);
  ~Poller();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  fabric::CompletionQueue& queue() { return *queue_; }

  // The body of a poller's thread: serves until core.exit.
  void run();
  // Does what there is to do; false if that was nothing.
  bool step();
  // What is done now and then: looks after connections that broke without a word,
  // takes new ones, retries, and carries a stop forward.
  void tend();
  // Waits in the queue unless something is there already.
  Result<void> rest(Deadline deadline);

  // Any thread: the exchange's answer is complete.
  void on_finished(Exchange& exchange);
  // Any thread: a connection for this poller, taken by another one.
  void hand_over(std::unique_ptr<fabric::Endpoint> endpoint);
  // Any thread: makes rest() return.
  void wake() { queue_->wake(); }
  // Any thread: stopping, everything answered, all connections closed.
  bool drained() const { return drained_.load(std::memory_order_acquire); }
  bool has_work_under_way() const { return exchanges_used_.load(std::memory_order_acquire) != 0; }
  ServerStats stats() const;

  // The Operation of every ServerReceive.
  static void on_receive(fabric::Operation& op, const fabric::Completion& completion);

 private:
  static constexpr std::uint32_t kRepostBatch = 8;
  static constexpr std::uint32_t kDoorbell = 16;  // Answers per doorbell.

  // An Operation that knows its poller, for sends that have no exchange.
  struct Signal : fabric::Operation {
    Signal(Done done, Poller* owner) : Operation(done), poller(owner) {}
    Poller* poller;
  };

  // Requests (poller_requests.cc).
  static Poller& polling_now(ServerCore& core);
  bool take_request(ServerReceive& receive, const fabric::Completion& completion);
  ErrorCode admit(const Connection& connection, const RequestHeader& header,
                  const RegisteredMethod* method) const;
  void take_time(Exchange& exchange);
  void count_answer(const Exchange& exchange) const;
  bool execute(Connection& connection, const RequestHeader& header, const RegisteredMethod& method,
               ServerReceive& receive, std::span<const std::byte> payload);
  void repost(ServerReceive& receive);
  void post_spent_receives();

  // Answers (poller_answers.cc).
  Exchange* take_exchange(Connection& connection);
  void release(Exchange& exchange);
  void answer(Exchange& exchange);
  void refuse(Connection& connection, std::uint64_t request_id, ErrorCode status);
  fabric::WorkRequest make_send(Connection& connection, Exchange& exchange);
  void flush();
  bool post_header(Connection& connection, const ResponseHeader& header, Signal& signal, bool signalled);
  bool must_signal(Connection& connection) const;
  void signal_next(Connection& connection) const;
  void send_unsent(Connection& connection);
  void take_finished();
  static void on_answer_sent(fabric::Operation& op, const fabric::Completion& completion);
  static void on_short_answer_sent(fabric::Operation& op, const fabric::Completion& completion);
  static void on_goodbye_sent(fabric::Operation& op, const fabric::Completion& completion);

  // Connections (poller.cc).
  Connection* find_or_adopt(fabric::EndpointId id);
  void adopt_new();
  void adopt(std::unique_ptr<fabric::Endpoint> endpoint);
  void close(Connection& connection);
  void close_all();
  void free_closed();
  void advance_stop();

  ServerCore& core_;
  std::unique_ptr<fabric::CompletionQueue> queue_;
  const bool driven_;
  const std::uint32_t depth_;
  const std::uint32_t exchanges_per_connection_;

  bool in_step_ = false;                                    // Answers may wait for the end of the step.
  bool answered_in_step_ = false;                           // One has been sent.
  std::array<fabric::ReceiveRequest, kRepostBatch> spent_;  // Receives to be posted again.
  std::uint32_t spent_count_ = 0;

  std::vector<Exchange> exchanges_;
  std::vector<Exchange*> free_exchanges_;
  std::unique_ptr<std::byte[]> exchange_memory_;

  Connection* staged_for_ = nullptr;
  std::array<Exchange*, kDoorbell> staged_{};
  std::uint32_t staged_count_ = 0;
  std::array<fabric::WorkRequest, kDoorbell> requests_;  // flush()'s; a member, to be initialised once.

  ConnectionTable connections_;
  std::vector<std::unique_ptr<Connection>> closed_;  // Until their exchanges are back.
  Signal short_answer_sent_;
  Signal goodbye_sent_;
  std::uint32_t goodbyes_under_way_ = 0;

  std::uint32_t until_sample_ = 1;  // Requests until the time of one is taken.

  // Written here, read by others.
  std::atomic<std::uint32_t> exchanges_used_ = 0;
  std::atomic<bool> drained_ = false;
  std::atomic<std::uint64_t> requests_seen_ = 0;
  std::atomic<std::uint64_t> refused_ = 0;
  std::atomic<std::uint64_t> connections_closed_ = 0;
  std::atomic<std::uint64_t> connection_count_ = 0;

  // Shared with whoever finishes an exchange elsewhere: see on_finished().
  std::atomic<bool> resting_ = false;
  std::atomic<std::uint32_t> finishing_ = 0;  // Threads inside it.
  sync::MpscQueue<Exchange*> finished_;       // Room for every exchange.

  sync::Mutex inbox_mutex_;
  std::vector<std::unique_ptr<fabric::Endpoint>> inbox_ YONDER_GUARDED_BY(inbox_mutex_);
};

}  // namespace yonder::rpc
