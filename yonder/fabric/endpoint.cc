#include "yonder/fabric/endpoint.h"

#include <utility>

#include "yonder/base/check.h"

namespace yonder::fabric {
namespace {

WorkRequest one_sided(Op op, RemoteAddress remote, Deadline deadline) {
  return WorkRequest{.op = op, .remote = remote, .deadline = deadline};
}

}  // namespace

// PendingOp is neither copied nor moved, so the one-piece requests below may
// point into the object that is being returned.
PendingOp::PendingOp(Endpoint& endpoint, const WorkRequest& request)
    : Operation(&PendingOp::on_done), endpoint_(endpoint), request_(request) {
  if (request.local.size() == 1) {
    piece_ = request.local.front();
    request_.local = {&piece_, 1};
  }
}

void PendingOp::on_done(Operation& self, const Completion& completion) {
  auto& op = static_cast<PendingOp&>(self);
  op.completion_ = completion;
  op.state_ = State::kDone;
  if (op.waiter_) std::exchange(op.waiter_, nullptr).resume();
}

void PendingOp::submit() {
  YONDER_CHECK(state_ == State::kIdle, "an operation is waited for once");
  state_ = State::kPosted;
  request_.user_data = reinterpret_cast<std::uint64_t>(static_cast<Operation*>(this));
  request_.flags = request_.flags | RequestFlags::kOperation;
  const Result<std::size_t> posted = endpoint_.post({&request_, 1});
  if (!posted) {
    completion_.status = posted.error().code();
    completion_.op = request_.op;
    state_ = State::kDone;
  }
}

Result<Completion> PendingOp::result() const {
  if (!completion_.ok())
    return fail(completion_.status, "fabric operation", static_cast<int>(completion_.op));
  return completion_;
}

Result<Completion> PendingOp::wait() {
  submit();
  CompletionQueue& queue = endpoint_.queue();
  while (state_ != State::kDone) {
    queue.poll({});
    // Guarantee E2 ends this loop; a wait that times out is not an error here.
    if (state_ != State::kDone) (void)queue.wait_for_operations();
  }
  return result();
}

bool PendingOp::await_suspend(std::coroutine_handle<> waiter) {
  submit();
  // Not polled here, although a provider that executes at post (shm) is done
  // now: polling would resume other coroutines on top of this one's stack.
  if (state_ == State::kDone) return false;
  waiter_ = waiter;
  return true;
}

PendingOp Endpoint::read(LocalPiece into, RemoteAddress from, Deadline deadline) {
  return read(std::span<const LocalPiece>(&into, 1), from, deadline);
}

PendingOp Endpoint::read(std::span<const LocalPiece> into, RemoteAddress from, Deadline deadline) {
  WorkRequest request = one_sided(Op::kRead, from, deadline);
  request.local = into;
  return PendingOp(*this, request);
}

PendingOp Endpoint::write(LocalPiece from, RemoteAddress to, Deadline deadline) {
  return write(std::span<const LocalPiece>(&from, 1), to, deadline);
}

PendingOp Endpoint::write(std::span<const LocalPiece> from, RemoteAddress to, Deadline deadline) {
  WorkRequest request = one_sided(Op::kWrite, to, deadline);
  request.local = from;
  return PendingOp(*this, request);
}

PendingOp Endpoint::write_imm(LocalPiece from, RemoteAddress to, std::uint32_t immediate, Deadline deadline) {
  WorkRequest request = one_sided(Op::kWriteImm, to, deadline);
  request.local = {&from, 1};
  request.immediate = immediate;
  return PendingOp(*this, request);
}

PendingOp Endpoint::send(LocalPiece message, std::uint32_t immediate, Deadline deadline) {
  WorkRequest request = one_sided(Op::kSend, {}, deadline);
  request.local = {&message, 1};
  request.immediate = immediate;
  return PendingOp(*this, request);
}

PendingOp Endpoint::compare_swap(RemoteAddress word, std::uint64_t expected, std::uint64_t desired,
                                 Deadline deadline) {
  WorkRequest request = one_sided(Op::kCompareSwap, word, deadline);
  request.compare = expected;
  request.operand = desired;
  return PendingOp(*this, request);
}

PendingOp Endpoint::fetch_add(RemoteAddress word, std::uint64_t add, Deadline deadline) {
  WorkRequest request = one_sided(Op::kFetchAdd, word, deadline);
  request.operand = add;
  return PendingOp(*this, request);
}

PendingOp Endpoint::perform(const WorkRequest& request) { return PendingOp(*this, request); }

}  // namespace yonder::fabric
