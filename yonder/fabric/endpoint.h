#pragma once
// An endpoint: one end of a connection, on which work is posted.
//
// Raw use, in batches:
//   WorkRequest batch[16] = {…};
//   Result<std::size_t> posted = endpoint.post(batch);
//   … queue.poll(completions) …
// Comfortable use, one at a time:
//   Result<Completion> done = endpoint.read(piece, address).wait();       // blocks
//   Result<Completion> done = co_await endpoint.read(piece, address);     // suspends
//
// Guarantees, on every provider:
//   E1  Requests of one endpoint take effect at the target in post order.
//   E2  Every signalled request and every posted receive completes exactly once,
//       at the latest shortly after its deadline, or when the endpoint closes
//       (kCancelled) or its connection breaks (kConnectionLost).
//   E3  After its completion a request never touches its local buffers again.
//   E4  A request the target refuses (key, bounds, right, alignment) fails alone:
//       earlier and later requests of the endpoint are executed.
//   E5  A read or write is not atomic: a concurrent writer may be seen in pieces
//       of at least 1 byte in any order, but an aligned 8-byte word is never torn.
//
//   state         | post                     | peer lost            | close
//   --------------+--------------------------+----------------------+---------
//   open          | executed                 | reconnecting, or     | closed
//                 |                          | broken               |
//   reconnecting  | waits for the connection | –                    | closed
//                 | until its deadline       |                      |
//   broken        | completes kConnectionLost| –                    | closed
//   closed        | kClosed                  | –                    | –
//
// Concurrency: the thread that uses the CompletionQueue (see there).
// Lifetime: closes on destruction; completions already made or caused by closing
// remain in the queue to be polled.

#include <coroutine>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "yonder/base/result.h"
#include "yonder/fabric/completion_queue.h"
#include "yonder/fabric/handshake.h"
#include "yonder/fabric/types.h"
#include "yonder/fabric/window.h"

namespace yonder::fabric {

enum class EndpointState : std::uint8_t { kOpen, kReconnecting, kBroken, kClosed };

class PendingOp;

class Endpoint {
 public:
  virtual ~Endpoint() = default;
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  // Posts requests in order with one doorbell and returns how many were
  // accepted: fewer than given when the depth is reached (poll, then post the
  // rest). What is wrong with a single request arrives as its completion.
  // kQueueFull if not even one fits, kClosed after close().
  Result<std::size_t> post(std::span<const WorkRequest> requests) {
    if (queue_.is_overfull()) [[unlikely]]
      return fail(ErrorCode::kQueueFull, "post: completions wait to be polled");
    return do_post(requests);
  }

  // Posts buffers for incoming messages. All or none: kQueueFull if they do not
  // fit. kInvalidArgument if the endpoint takes from a shared ReceiveQueue.
  virtual Result<void> post_receive(std::span<const ReceiveRequest> receives) = 0;

  // Ends everything outstanding with kCancelled and drops the connection. When it
  // returns no local buffer is used any more. Idempotent.
  virtual void close() = 0;

  virtual EndpointState state() const = 0;
  virtual const Limits& limits() const = 0;
  virtual const Agreement& agreement() const = 0;
  // What the listener said at connect time (ListenOptions::greeting).
  virtual std::span<const std::byte> greeting() const = 0;
  // A look at a region of the peer without requests, where the provider can give
  // one now: on shm, for a readable region that was used before and is mapped here.
  virtual std::optional<Window> window(RegionKey) { return std::nullopt; }
  // Unique within the fabric, never reused.
  EndpointId id() const { return id_; }
  CompletionQueue& queue() const { return queue_; }

  // One operation each, as an object that can be waited for or awaited. The
  // pieces and buffers must live until then. Deadline: default timeout.
  PendingOp read(LocalPiece into, RemoteAddress from, Deadline deadline = {});
  PendingOp read(std::span<const LocalPiece> into, RemoteAddress from, Deadline deadline = {});
  PendingOp write(LocalPiece from, RemoteAddress to, Deadline deadline = {});
  PendingOp write(std::span<const LocalPiece> from, RemoteAddress to, Deadline deadline = {});
  PendingOp write_imm(LocalPiece from, RemoteAddress to, std::uint32_t immediate, Deadline deadline = {});
  PendingOp send(LocalPiece message, std::uint32_t immediate = 0, Deadline deadline = {});
  PendingOp compare_swap(RemoteAddress word, std::uint64_t expected, std::uint64_t desired,
                         Deadline deadline = {});
  PendingOp fetch_add(RemoteAddress word, std::uint64_t add, Deadline deadline = {});
  // A prepared request; flags kUnsignalled and kOperation are not allowed.
  PendingOp perform(const WorkRequest& request);

 protected:
  Endpoint(CompletionQueue& queue, EndpointId id) : queue_(queue), id_(id) {}
  virtual Result<std::size_t> do_post(std::span<const WorkRequest> requests) = 0;

 private:
  CompletionQueue& queue_;
  const EndpointId id_;
};

// One operation that is posted when it is waited for or awaited, once. The
// result is the successful Completion (`value` has an atomic's old word) or the
// Error of the failed one. Uses no heap: it lives in the caller's frame.
class [[nodiscard]] PendingOp : private Operation {
 public:
  PendingOp(Endpoint& endpoint, const WorkRequest& request);
  PendingOp(const PendingOp&) = delete;
  PendingOp& operator=(const PendingOp&) = delete;

  // Blocks, making progress on the endpoint's queue. On `sim` this runs the
  // simulation, so it must not be called from inside one of its coroutines.
  Result<Completion> wait();

  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> waiter);
  Result<Completion> await_resume() const { return result(); }

 private:
  friend class Endpoint;
  enum class State : std::uint8_t { kIdle, kPosted, kDone };

  static void on_done(Operation& self, const Completion& completion);
  void submit();
  Result<Completion> result() const;

  Endpoint& endpoint_;
  LocalPiece piece_;  // The one piece of the common case; request_.local may point here.
  WorkRequest request_;
  Completion completion_;
  std::coroutine_handle<> waiter_;
  State state_ = State::kIdle;
};

}  // namespace yonder::fabric
