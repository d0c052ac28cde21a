#include "yonder/remote/counter.h"

#include "yonder/base/check.h"

namespace yonder::remote {

Barrier::Barrier(Port port, RemoteAddress word, const BarrierOptions& options)
    : port_(port),
      arrivals_(port, word),
      parties_(options.parties),
      backoff_(options.backoff),
      random_(options.seed) {
  YONDER_CHECK(parties_ > 0, "a barrier is for somebody");
}

Task<Result<void>> Barrier::async_arrive(Deadline deadline) {
  deadline = port_.deadline(deadline);
  const Result<std::uint64_t> before = co_await arrivals_.async_add(1, deadline);
  if (!before) co_return std::unexpected(before.error());
  const std::uint64_t round_end = (*before / parties_ + 1) * parties_;
  std::uint64_t arrived = *before + 1;
  Backoff backoff(backoff_, random_);
  while (arrived < round_end) {
    if (deadline.passed(port_.clock().now())) {
      co_return fail(ErrorCode::kDeadlineExceeded, "wait at a remote barrier",
                     static_cast<std::int64_t>(round_end - arrived));
    }
    if (backoff.wants_pause()) co_await port_.scheduler().sleep_for(backoff.next());
    const Result<std::uint64_t> now = co_await arrivals_.async_load(deadline);
    // One that came too late says no more than the look before it.
    if (!now && now.error() != ErrorCode::kDeadlineExceeded) co_return std::unexpected(now.error());
    if (now) arrived = *now;
  }
  co_return Result<void>();
}

}  // namespace yonder::remote
