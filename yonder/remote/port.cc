#include "yonder/remote/port.h"

#include <cstddef>
#include <span>

namespace yonder::remote {

using fabric::Completion;
using fabric::WorkRequest;

Task<Result<Completion>> Port::perform(Port port, WorkRequest request, Deadline deadline) {
  request.deadline = port.deadline(deadline);
  for (;;) {
    Result<Completion> done = co_await port.endpoint_->perform(request);
    if (done || done.error() != ErrorCode::kQueueFull) co_return done;
    if (request.deadline.passed(port.clock().now())) {
      co_return fail(ErrorCode::kDeadlineExceeded, "wait for a place on an endpoint");
    }
    co_await port.scheduler_->sleep_for(kPauseWhenFull);
  }
}

Task<Result<void>> Port::transfer(Port port, fabric::Op op, LocalPiece piece, RemoteAddress remote,
                                  Deadline deadline) {
  const WorkRequest request{.op = op, .local = {&piece, 1}, .remote = remote};
  const Result<Completion> done = co_await perform(port, request, deadline);
  co_return outcome_of(done);
}

Task<Result<std::uint64_t>> Port::load(Port port, RemoteAddress word, Deadline deadline) {
  std::uint64_t value = 0;
  const LocalPiece piece = LocalPiece::of(std::as_bytes(std::span(&value, 1)));
  const Result<void> done = co_await transfer(port, fabric::Op::kRead, piece, word, deadline);
  if (!done) co_return std::unexpected(done.error());
  co_return value;
}

Task<Result<std::uint64_t>> Port::atomic(Port port, WorkRequest request, Deadline deadline) {
  const Result<Completion> done = co_await perform(port, request, deadline);
  if (!done) co_return std::unexpected(done.error());
  co_return done->value;
}

}  // namespace yonder::remote
