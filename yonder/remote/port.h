#pragma once
// A port: what one thread needs to talk to one target. An endpoint, the scheduler
// that drives its queue, and how long to wait where a caller does not say.
//
//   remote::Port port(*endpoint, scheduler);
//   Result<std::uint64_t> ticket = co_await port.async_fetch_add(word, 1);   // suspends
//   Result<std::uint64_t> ticket = port.fetch_add(word, 1);                  // blocks
//
// Everything of this folder stands on ports and on nothing that only one provider
// has. Many things may share one port (locks, vectors, buffers of one thread): who
// finds the endpoint at its depth waits for a place until the deadline, instead of
// failing as a bare request would.
//
// A word is 8 aligned bytes of remote memory. Words that are changed by atomics are
// changed by nothing else: where the NIC executes them the target's CPU may not
// (fabric::AtomicsBy).
//
// Concurrency: the thread that uses the endpoint's queue. Blocking calls must not be
// made inside a coroutine.
// Lifetime: a value; endpoint and scheduler outlive every copy and every task. Local
// pieces are borrowed until the call, or the awaited task, has ended.

#include <cstdint>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/fabric/endpoint.h"
#include "yonder/fabric/scheduler.h"
#include "yonder/fabric/task.h"
#include "yonder/fabric/types.h"

namespace yonder::remote {

using fabric::LocalPiece;
using fabric::RemoteAddress;
using fabric::Task;

class Port {
 public:
  // `timeout`: of calls that give no deadline.
  Port(fabric::Endpoint& endpoint, fabric::Scheduler& scheduler, Duration timeout = std::chrono::seconds(5))
      : endpoint_(&endpoint), scheduler_(&scheduler), timeout_(timeout) {}

  fabric::Endpoint& endpoint() const { return *endpoint_; }
  fabric::Scheduler& scheduler() const { return *scheduler_; }
  fabric::CompletionQueue& queue() const { return endpoint_->queue(); }
  const Clock& clock() const { return queue().clock(); }
  Duration timeout() const { return timeout_; }
  // `deadline`, or the port's timeout from now on.
  Deadline deadline(Deadline deadline) const {
    return deadline.or_default(Deadline::after(clock(), timeout_));
  }

  // One request; waits for a place. Errors: those of the request; kDeadlineExceeded.
  // The pieces of `request.local`, and the array of them, live until the end.
  Task<Result<fabric::Completion>> async_perform(fabric::WorkRequest request, Deadline deadline = {}) const {
    return perform(*this, request, deadline);
  }
  Task<Result<void>> async_read(LocalPiece into, RemoteAddress from, Deadline deadline = {}) const {
    return transfer(*this, fabric::Op::kRead, into, from, deadline);
  }
  Task<Result<void>> async_write(LocalPiece from, RemoteAddress to, Deadline deadline = {}) const {
    return transfer(*this, fabric::Op::kWrite, from, to, deadline);
  }
  // The word now.
  Task<Result<std::uint64_t>> async_load(RemoteAddress word, Deadline deadline = {}) const {
    return load(*this, word, deadline);
  }
  // The word before: equal to `expected` if it was replaced.
  Task<Result<std::uint64_t>> async_compare_swap(RemoteAddress word, std::uint64_t expected,
                                                 std::uint64_t desired, Deadline deadline = {}) const {
    return atomic(*this,
                  {.op = fabric::Op::kCompareSwap, .remote = word, .operand = desired, .compare = expected},
                  deadline);
  }
  // The word before.
  Task<Result<std::uint64_t>> async_fetch_add(RemoteAddress word, std::uint64_t add,
                                              Deadline deadline = {}) const {
    return atomic(*this, {.op = fabric::Op::kFetchAdd, .remote = word, .operand = add}, deadline);
  }

  // The same, blocking.
  template <typename T>
  T run(Task<T> task) const {
    return scheduler_->block_on(std::move(task));
  }
  Result<void> read(LocalPiece into, RemoteAddress from, Deadline deadline = {}) const {
    return run(async_read(into, from, deadline));
  }
  Result<void> write(LocalPiece from, RemoteAddress to, Deadline deadline = {}) const {
    return run(async_write(from, to, deadline));
  }
  Result<std::uint64_t> load(RemoteAddress word, Deadline deadline = {}) const {
    return run(async_load(word, deadline));
  }
  Result<std::uint64_t> compare_swap(RemoteAddress word, std::uint64_t expected, std::uint64_t desired,
                                     Deadline deadline = {}) const {
    return run(async_compare_swap(word, expected, desired, deadline));
  }
  Result<std::uint64_t> fetch_add(RemoteAddress word, std::uint64_t add, Deadline deadline = {}) const {
    return run(async_fetch_add(word, add, deadline));
  }

  // How long somebody who finds the endpoint full looks away. Longer than a
  // completion takes to be polled, shorter than a round trip of any network.
  static constexpr Duration kPauseWhenFull = std::chrono::microseconds(1);

 private:
  // Coroutines take the port by value: the caller's copy may be gone before they end.
  static Task<Result<fabric::Completion>> perform(Port port, fabric::WorkRequest request, Deadline deadline);
  static Task<Result<void>> transfer(Port port, fabric::Op op, LocalPiece piece, RemoteAddress remote,
                                     Deadline deadline);
  static Task<Result<std::uint64_t>> load(Port port, RemoteAddress word, Deadline deadline);
  static Task<Result<std::uint64_t>> atomic(Port port, fabric::WorkRequest request, Deadline deadline);

  fabric::Endpoint* endpoint_;
  fabric::Scheduler* scheduler_;
  Duration timeout_;
};

}  // namespace yonder::remote
