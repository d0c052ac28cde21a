#pragma once
// A client: calls methods of one server over one endpoint of any fabric.
//
//   auto client = rpc::Client::connect(fabric, "tcp://host:7400", queue, {});
//   Result<EchoResponse> answer = (*client)->call<Echo>({.number = 7}).wait();
//
// Calls complete in any order; as many may be under way as the server granted
// credits, further ones wait in line. No call waits past its deadline. When the
// connection is lost every call that was sent fails with kConnectionLost at once
// (it may have been executed); calls that were not sent yet wait for the fabric to
// reconnect, until their deadline. In the steady state a call allocates nothing,
// takes no lock, and one with the default deadline reads no clock.
//
//   state        | call                    | connection lost       | goodbye    | close
//   -------------+-------------------------+-----------------------+------------+--------
//   ready        | sent, or waits for a    | sent calls fail;      | stopping   | closed
//                | credit                  | recovering, or broken |            |
//   stopping     | kStopping               | recovering, or broken | –          | closed
//   recovering   | waits for the fabric    | –                     | –          | closed
//   broken       | kConnectionLost, or     | –                     | –          | closed
//                | kServerReplaced         |                       |            |
//   closed       | kClosed                 | –                     | –          | –
//
// Concurrency: the thread that uses the completion queue.
// Lifetime: owns its endpoint; the queue (and the scheduler, if one is given)
// outlive it, calls do not. Destroying a client closes it and polls the queue for
// the buffers that the fabric gives back. Where some are still to come (a client
// that is destroyed by a coroutine, from inside poll()) the memory lives on,
// without an owner, until the queue has delivered the last one.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "yonder/base/check.h"
#include "yonder/base/id.h"
#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/fabric/fabric.h"
#include "yonder/fabric/task.h"
#include "yonder/rpc/call.h"
#include "yonder/rpc/call_table.h"
#include "yonder/rpc/message.h"
#include "yonder/sync/atomics.h"

namespace yonder::fabric {
class Scheduler;
}

namespace yonder::rpc {

struct ClientOptions {
  // At most so many requests outstanding, and never more than the server grants.
  std::uint32_t max_outstanding = 32;
  // Further requests that the application may post on endpoint() itself (one-sided
  // ones) without taking the place of calls.
  std::uint32_t one_sided_depth = 0;
  // Room for an answer's payload; rounded down to a power of two.
  std::uint32_t max_response = 8 * 1024;
  // Of calls that give no deadline.
  Duration default_timeout = std::chrono::seconds(5);
  Duration connect_timeout = std::chrono::seconds(5);  // also of each attempt to reconnect
  // Sent with every request.
  TenantId tenant{0};
  Epoch epoch{0};
  // Whether the server's greeting must stay what it was at the first connection: else
  // another server that is found after a reconnection is not sent any call, and all
  // fail with kServerReplaced.
  bool same_greeting = false;
  // Needed by awaited calls only: keeps their deadlines.
  fabric::Scheduler* scheduler = nullptr;
  // How often a blocking call polls before it asks the clock and lets the queue
  // spin and sleep. 256 polls are a few microseconds: longer than an answer takes
  // if both sides are busy.
  std::uint32_t spin_polls = 256;
};

struct ClientStats {
  std::uint64_t late_answers = 0;     // Came after their call was given up.
  std::uint64_t unknown_answers = 0;  // Answers to nothing that was asked.
  std::uint64_t losses = 0;           // Connections lost.
};

class Client;
struct ClientDeleter {
  void operator()(Client* client) const;
};
using ClientPtr = std::unique_ptr<Client, ClientDeleter>;

// In cache lines of its own: a server's poller may live in the same process.
class alignas(sync::kNoSharingBytes) Client {
 public:
  // Connects with an endpoint of the right depths. Errors: Fabric::connect's and
  // create's.
  static Result<ClientPtr> connect(fabric::Fabric& fabric, const std::string& address,
                                   fabric::CompletionQueue& queue, const ClientOptions& options);
  // On an endpoint that was connected otherwise. kProtocolMismatch if the peer is
  // no rpc server, kInvalidArgument if an answer cannot fit the endpoint's limits.
  static Result<ClientPtr> create(std::unique_ptr<fabric::Endpoint> endpoint, const ClientOptions& options);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Errors of a call: what the handler answered; kDeadlineExceeded,
  // kConnectionLost, kStopping, kOverloaded, kUnknownMethod, kBadRequest,
  // kHandlerFailed, kStaleEpoch; kMessageTooLong if a message exceeds a bound;
  // kCorrupt if the answer does not decode; kClosed.
  template <Method M>
  PendingCall<M> call(typename M::Request request, Deadline deadline = {}) {
    return PendingCall<M>(*this, std::move(request), deadline);
  }
  RawCall call_raw(MethodId method, std::span<const std::byte> request, std::span<std::byte> answer,
                   Deadline deadline = {}) {
    return RawCall(*this, method, request, answer, deadline);
  }

  // Calls with each of `requests`, many at a time and with few doorbells, and
  // returns when all of `results` (of the same size) are there.
  template <Method M>
  void call_many(std::span<const typename M::Request> requests,
                 std::span<Result<typename M::Response>> results, Deadline deadline = {});

  // Ends calls that are under way with kCancelled. Idempotent.
  void close();

  // Of requests from now on.
  void set_epoch(Epoch epoch) { options_.epoch = epoch; }
  // What the last answer said.
  Epoch server_epoch() const { return server_epoch_; }
  // The application's part of the greeting.
  std::span<const std::byte> greeting() const { return endpoint_->greeting().subspan(kGreetingBytes); }
  fabric::Endpoint& endpoint() { return *endpoint_; }
  fabric::CompletionQueue& queue() { return endpoint_->queue(); }
  const ClientStats& stats() const { return stats_; }
  // Credits in hand, and requests whose answer is still out.
  std::uint32_t credits() const { return credits_; }
  std::size_t outstanding() const { return table_.size() - table_.free_count(); }

  // Aborts if the books do not balance. For tests.
  void check_invariants() const;

 private:
  friend class CallBase;
  friend struct ClientDeleter;
  template <Method M>
  class BatchedCall;
  enum class State : std::uint8_t { kReady, kStopping, kRecovering, kBroken, kClosed };

  // A buffer for an answer; the Operation is that of its receive.
  struct Receive : fabric::Operation {
    explicit Receive(Done done) : Operation(done) {}
    Client* client = nullptr;
    fabric::LocalPiece buffer;
    bool is_posted = false;
  };
  // Receives are given back to the fabric this many at a time.
  static constexpr std::uint32_t kRepostBatch = 8;
  // Lets the sweeper, which the scheduler owns, notice that the client is gone.
  struct Anchor {
    Client* client;
  };

  Client(std::unique_ptr<fabric::Endpoint> endpoint, const ClientOptions& options, const Greeting& greeting,
         std::uint32_t slots);
  ~Client();

  // Sending.
  void start(CallBase& call);
  void send(CallBase& call);
  void stage(CallTable::Slot& slot, std::size_t bytes);
  void flush();
  void drop_staged();
  void send_waiting();
  std::uint32_t budget_of(const CallBase& call) const;
  void make_deadline_explicit(CallBase& call);
  static void on_sent(fabric::Operation& op, const fabric::Completion& completion);
  CallBase* take_undelivered(CallTable::Slot& slot, ErrorCode status);
  void break_if_hopeless();

  // Receiving.
  static void on_receive(fabric::Operation& op, const fabric::Completion& completion);
  CallBase* take_answer(std::span<const std::byte> message);
  void repost(Receive& receive);
  void post_spent_receives();
  void post_all_receives();

  // Ends.
  void progress();
  void on_connection_lost();
  void lose_connection();
  void recover();
  // The endpoint is open again, and what is still posted belongs to that connection.
  void begin_again();
  void begin_again_if_quiet();
  // Why the server that answers now cannot take the place of the first; kOk: it can.
  ErrorCode objection() const;
  void break_connection(ErrorCode status);
  enum class Which : std::uint8_t { kSent, kWaiting, kAll };
  void fail_calls(Which which, ErrorCode status);
  void expire(CallBase& call);
  void forget(CallBase& call);
  // Some Operation of ours will be called, or is being called.
  bool fabric_holds_memory() const { return receives_posted_ + sends_posted_ + in_operations_ != 0; }
  void operation_ended();
  // Polls and, if nothing happened, waits; false when `deadline` has passed.
  bool wait_some(Deadline& deadline);

  // Deadlines of awaited calls (client_deadlines.cc).
  void watch_deadline(const CallBase& call);
  void arm_sweep(Instant when);
  void sweep();
  static fabric::Task<void> sweep_at(fabric::Scheduler& scheduler, std::shared_ptr<Anchor> anchor,
                                     Instant when);

  ClientOptions options_;
  std::unique_ptr<fabric::Endpoint> endpoint_;
  State state_ = State::kReady;
  ErrorCode broken_by_ = ErrorCode::kConnectionLost;  // What calls are told in state kBroken.
  std::uint32_t credits_ = 0;
  std::uint32_t max_request_ = 0;
  std::uint32_t default_budget_us_ = 0;
  std::uint32_t answer_log2_ = 0;
  std::uint32_t max_inline_ = 0;
  std::uint32_t sends_posted_ = 0;
  std::uint32_t in_operations_ = 0;  // Depth of on_sent and on_receive on the stack.
  bool hold_doorbell_ = false;
  bool orphaned_ = false;  // Deletes itself with the last operation.
  Epoch server_epoch_{0};
  std::vector<std::byte> first_greeting_;  // The application's part, if it must stay.
  CallTable table_;
  CallList waiting_;                         // For a credit, or for the connection.
  std::vector<fabric::WorkRequest> staged_;  // Encoded, not posted yet; at most one per slot.

  std::vector<Receive> receives_;
  std::unique_ptr<std::byte[]> receive_memory_;
  std::array<fabric::ReceiveRequest, kRepostBatch> spent_;
  std::uint32_t spent_count_ = 0;
  std::uint32_t receives_posted_ = 0;
  // While recovering: how many were posted when it was looked last, and since when.
  std::uint32_t quiet_posted_ = 0;
  Instant quiet_since_;

  std::shared_ptr<Anchor> anchor_;
  Instant next_sweep_ = Instant::from_ns(INT64_MAX);
  ClientStats stats_;
};

// One of the few call objects that call_many() uses for many requests.
template <Method M>
class Client::BatchedCall final : public CallBase {
 public:
  BatchedCall(Client& client, Deadline deadline) : CallBase(client, M::kMethod, deadline, &encode, &keep) {}

  void begin(const typename M::Request& request, Result<typename M::Response>& result) {
    reset();
    request_ = &request;
    result_ = &result;
    client_.start(*this);
  }

 private:
  static std::optional<std::size_t> encode(const CallBase& self, std::span<std::byte> out) {
    return encode_message(*static_cast<const BatchedCall&>(self).request_, out);
  }
  static void keep(CallBase& self, ErrorCode status, std::span<const std::byte> payload) {
    PendingCall<M>::keep_answer(*static_cast<BatchedCall&>(self).result_, status, payload);
  }

  const typename M::Request* request_ = nullptr;
  Result<typename M::Response>* result_ = nullptr;
};

template <Method M>
void Client::call_many(std::span<const typename M::Request> requests,
                       std::span<Result<typename M::Response>> results, Deadline deadline) {
  YONDER_CHECK(requests.size() == results.size(), "one result for each request");
  deadline = deadline.or_default(Deadline::after(queue().clock(), options_.default_timeout));
  // As many lanes as a default window has credits: more would only wait in line.
  std::array<std::optional<BatchedCall<M>>, 32> lanes;
  std::size_t next = 0;
  std::uint32_t polls = options_.spin_polls;
  bool in_time = true;
  for (bool running = true; running;) {
    running = false;
    hold_doorbell_ = true;
    for (auto& lane : lanes) {
      if (!lane && next < requests.size()) lane.emplace(*this, deadline);
      if (!lane) continue;
      if (!in_time && !lane->done()) expire(*lane);
      while ((lane->idle() || lane->done()) && next < requests.size()) {
        lane->begin(requests[next], results[next]);
        ++next;
      }
      running = running || !(lane->idle() || lane->done());
    }
    hold_doorbell_ = false;
    flush();
    if (running && polls > 0) {
      --polls;
      queue().poll({});
    } else if (running) {
      in_time = wait_some(deadline);
    }
  }
}

}  // namespace yonder::rpc
