#include "yonder/remote/vector_io.h"

#include <algorithm>
#include <utility>

#include "yonder/remote/internal/vector_call.h"

namespace yonder::remote {

using fabric::Op;

VectorIo::VectorIo(Port port, BufferPool& pool, const VectorOptions& options)
    : port_(port), pool_(pool), options_(options) {}
VectorIo::~VectorIo() = default;

Result<void> VectorIo::check(std::span<const VectorPiece> pieces) const {
  if (pieces.size() > options_.max_pieces) {
    return fail(ErrorCode::kLengthInvalid, "a vector of too many pieces",
                static_cast<std::int64_t>(pieces.size()));
  }
  const std::uint64_t max_transfer = port_.endpoint().limits().max_transfer;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::uint64_t length = pieces[i].local.length;
    if (length > max_transfer) {
      return fail(ErrorCode::kLengthInvalid, "a piece of a vector is too long", static_cast<std::int64_t>(i));
    }
    if (pieces[i].remote.offset > UINT64_MAX - length) {
      return fail(ErrorCode::kOutOfBounds, "a piece of a vector wraps", static_cast<std::int64_t>(i));
    }
  }
  return {};
}

Task<Result<void>> VectorIo::move(Op op, std::span<const VectorPiece> pieces, Strategy strategy,
                                  Deadline deadline) {
  const Result<void> checked = check(pieces);
  if (!checked) co_return checked;
  deadline = port_.deadline(deadline);
  if (strategy == Strategy::kSingle) co_return co_await move_one_by_one(op, pieces, deadline);
  co_return co_await move_together(op, pieces, strategy, deadline);
}

Task<Result<void>> VectorIo::move_one_by_one(Op op, std::span<const VectorPiece> pieces, Deadline deadline) {
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const VectorPiece& piece = pieces[i];
    if (piece.local.length == 0) continue;
    const bool goes_along = op == Op::kWrite && piece.local.length <= port_.endpoint().limits().max_inline;
    const fabric::WorkRequest request{
        .op = op,
        .flags = goes_along ? fabric::RequestFlags::kInline : fabric::RequestFlags::kNone,
        .local = {&piece.local, 1},
        .remote = piece.remote};
    const Result<fabric::Completion> done = co_await port_.async_perform(request, deadline);
    if (!done) {
      co_return fail(done.error().code(), "move one piece of a vector", static_cast<std::int64_t>(i));
    }
    ++stats_.pieces;
    ++stats_.requests;
  }
  co_return Result<void>();
}

Task<Result<void>> VectorIo::move_together(Op op, std::span<const VectorPiece> pieces, Strategy strategy,
                                           Deadline deadline) {
  if (idle_calls_.empty()) {
    idle_calls_.push_back(std::make_unique<internal::VectorCall>(port_.endpoint(), pool_));
  }
  CallPtr call = std::move(idle_calls_.back());
  idle_calls_.pop_back();
  const fabric::Limits& limits = port_.endpoint().limits();
  const internal::PlanRules rules{.strategy = strategy,
                                  .is_write = op == Op::kWrite,
                                  .max_pieces = limits.max_pieces,
                                  .max_transfer = limits.max_transfer,
                                  .max_pack_bytes = pool_.buffer_bytes(),
                                  .max_inline = limits.max_inline,
                                  .costs = &options_.costs};
  const std::uint32_t window = options_.window == 0 ? limits.depth : std::min(options_.window, limits.depth);
  call->prepare(op, pieces, rules, deadline, window);
  call->count_in(stats_);
  while (!call->finished()) {
    co_await call->flight();
    if (call->finished()) break;
    // The endpoint is full of others' requests.
    if (deadline.passed(port_.clock().now())) {
      call->give_up(ErrorCode::kDeadlineExceeded);
      break;
    }
    co_await port_.scheduler().sleep_for(Port::kPauseWhenFull);
  }
  const Result<void> result = call->finish();
  idle_calls_.push_back(std::move(call));
  co_return result;
}

}  // namespace yonder::remote
