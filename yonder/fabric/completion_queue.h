#pragma once
// A completion queue: where one thread learns what became of its requests.
//
// Endpoints are attached to a queue when they are made; several may share one.
// poll() takes what is there and never blocks; wait() spins for about 50 µs and
// then sleeps until there is something to poll, so that an idle thread costs
// nothing. A queue also makes progress for its endpoints: on tcp the initiator's
// socket is read by poll() and wait().
//
// Requests and receives flagged kOperation are not returned by poll(): their
// Operation is called instead, from inside poll() (on `sim`: from inside any queue's wait()).
// That is what the awaitable and blocking calls of Endpoint are made of, and why
// they can be mixed freely with raw requests on one queue.
//
// Concurrency: one thread at a time uses a queue and its endpoints; which thread
// may change over time (hand over with the usual synchronisation). wake() alone
// may be called from any thread.
// Lifetime: outlives its endpoints; is outlived by its fabric.
//
// Bounds: an endpoint reserves depth + receive_depth of `capacity` when it is
// made, so a completion always has room. Completions that poll() met while its
// caller wanted Operations only are kept aside for the next poll(); once
// `capacity` of them wait, post() refuses (kQueueFull) until somebody polls.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/fabric/types.h"

namespace yonder::fabric {

// Receives one completion by a call. Lives where the caller wants (a coroutine
// frame, a stack, a pool): the fabric only borrows it until the call.
class Operation {
 public:
  using Done = void (*)(Operation& self, const Completion& completion);
  explicit constexpr Operation(Done done) : done_(done) {}
  void complete(const Completion& completion) { done_(*this, completion); }

 private:
  Done done_;
};

struct CompletionQueueOptions {
  // A device may hold less (verbs: capacity() then says how much); what does not fit
  // is refused when an endpoint is made.
  std::uint32_t capacity = 4096;
  // How long wait() spins before it sleeps. On a machine with two cores, at most
  // one thread per core should spin.
  Duration spin = std::chrono::microseconds(50);
};

// What a thread does besides posting and polling.
enum class CpuWork : std::uint8_t {
  kCopy,     // copies `count` pieces of `bytes` bytes together
  kRequest,  // takes in and answers `count` requests of an rpc
  kFarLine,  // reads `count` lines that a thread of another socket has written
};

class CompletionQueue {
 public:
  virtual ~CompletionQueue() = default;
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;

  // Makes progress, calls the Operations that are done, and stores up to
  // out.size() other completions, oldest first per endpoint. Returns how many it
  // stored. An empty span still makes progress and calls Operations.
  std::size_t poll(std::span<Completion> out);

  // Returns when a completion is there (or an Operation was called, or wake()
  // was), kDeadlineExceeded when `deadline` passes first. The default deadline
  // is one second.
  Result<void> wait(Deadline deadline = {}) {
    if (!aside_.empty()) return {};
    return do_wait(deadline);
  }
  // The same for a caller that polls with an empty span: completions that were
  // put aside for others do not end this wait.
  Result<void> wait_for_operations(Deadline deadline = {}) { return do_wait(deadline); }

  // Makes the current or next wait() return at once. Any thread.
  virtual void wake() = 0;

  // The clock that deadlines of this queue's endpoints are measured with.
  virtual const Clock& clock() const = 0;

  // The caller works on the thread of this queue. Nothing to do where that takes real
  // time by itself; in a simulation the thread is busy for as long as the model of its
  // host says, so that a copy is no free lunch there.
  virtual void charge(CpuWork /*work*/, std::size_t /*count*/, std::uint64_t /*bytes*/) {}
  void charge_copy(std::size_t pieces, std::uint64_t bytes) { charge(CpuWork::kCopy, pieces, bytes); }

  // How many requests handed to an Operation so far; lets a caller see that
  // wait() called something.
  std::uint64_t operations_completed() const { return operations_completed_; }

  // True when so many completions wait to be polled that post() must refuse.
  bool is_overfull() const { return aside_.size() >= capacity_; }
  std::uint32_t capacity() const { return capacity_; }

 protected:
  explicit CompletionQueue(std::uint32_t capacity) : capacity_(capacity) {}

  // Up to out.size() completions of any kind.
  virtual std::size_t do_poll(std::span<Completion> out) = 0;
  virtual Result<void> do_wait(Deadline deadline) = 0;

  // Calls the Operation of a kOperation completion.
  void dispatch(const Completion& completion);

 private:
  std::size_t take_aside(std::span<Completion> out);
  void poll_operations();

  const std::uint32_t capacity_;
  std::uint64_t operations_completed_ = 0;
  std::vector<Completion> aside_;  // At most 2 × capacity_: see Bounds.
};

}  // namespace yonder::fabric
