#include "yonder/remote/sequencer.h"

#include "yonder/base/check.h"

namespace yonder::remote {

Sequencer::Sequencer(Port port, RemoteAddress word, const SequencerOptions& options)
    : port_(port), word_(word), batch_(options.batch) {
  YONDER_CHECK(batch_ > 0, "a sequencer takes at least one number at a time");
}

Task<Result<std::uint64_t>> Sequencer::async_next(Deadline deadline) {
  if (next_ != end_) co_return next_++;
  // Nothing is kept of a range of one, so nobody needs to take turns.
  if (batch_ == 1) co_return co_await port_.async_fetch_add(word_, 1, deadline);
  const Turn::Guard guard = co_await refill_.take();
  if (next_ == end_) {
    const Result<std::uint64_t> first = co_await port_.async_fetch_add(word_, batch_, deadline);
    if (!first) co_return first;
    next_ = *first;
    end_ = *first + batch_;
  }
  co_return next_++;
}

Task<Result<std::uint64_t>> Sequencer::async_reserve(std::uint64_t count, Deadline deadline) {
  if (count == 0) co_return fail(ErrorCode::kInvalidArgument, "reserve no numbers");
  co_return co_await port_.async_fetch_add(word_, count, deadline);
}

}  // namespace yonder::remote
