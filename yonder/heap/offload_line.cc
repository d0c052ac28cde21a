#include "yonder/heap/offload_line.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "yonder/os/steady_clock.h"

namespace yonder::heap {
namespace {

using client::OffloadSession;
using fabric::Task;

// How often a call looks whether what others have lent is free: a function takes as long.
constexpr Duration kLendPoll = std::chrono::microseconds(100);

}  // namespace

Result<std::unique_ptr<OffloadLine>> OffloadLine::connect(OffloadSpace& space,
                                                          const OffloadLineOptions& options) {
  if (options.scheduler != nullptr && options.queue == nullptr)
    return fail(ErrorCode::kInvalidArgument, "offload line: a scheduler without its queue");
  std::unique_ptr<OffloadLine> line(new OffloadLine(space));
  fabric::CompletionQueue* queue = options.queue;
  if (queue == nullptr) {
    YONDER_TRY(made, space.fabric().create_completion_queue({.spin = std::chrono::microseconds(5)}));
    line->own_queue_ = std::move(made);
    queue = line->own_queue_.get();
  }
  line->scheduler_ = options.scheduler;
  if (line->scheduler_ == nullptr) {
    line->own_scheduler_ = std::make_unique<fabric::Scheduler>(*queue);
    line->scheduler_ = line->own_scheduler_.get();
  }
  YONDER_TRY(session, OffloadSession::connect(space.fabric(), {.address = space.options().node,
                                                               .timeout = space.options().timeout,
                                                               .depth = options.depth,
                                                               .queue = queue,
                                                               .scheduler = line->scheduler_}));
  line->session_ = std::move(session);
  return line;
}

OffloadLine::~OffloadLine() = default;

// Never waits as the space would: who has the pages may be another task of this thread.
Task<Result<PagedSpace::Lend>> OffloadLine::lend(std::span<const LentRange> ranges, Deadline deadline) {
  for (;;) {
    const Instant now = os::SteadyClock::read();
    Result<PagedSpace::Lend> lent = space_.pages().lend(ranges, Deadline::at(now));
    if (lent || lent.error() != ErrorCode::kDeadlineExceeded || deadline.passed(now)) co_return lent;
    co_await scheduler_->sleep_for(kLendPoll);
  }
}

Task<Result<std::vector<std::byte>>> OffloadLine::async_call_raw(FunctionId function,
                                                                 std::span<const std::byte> arguments,
                                                                 std::vector<LentRange> ranges,
                                                                 Duration time) {
  const OffloadSpace::CallCount count(space_);
  const Deadline deadline = Deadline::at(os::SteadyClock::read() + time);
  const Result<PagedSpace::Lend> lent = co_await lend(ranges, deadline);
  if (!lent) co_return count.failed(lent.error());
  const Duration left = std::max<Duration>(deadline.instant() - os::SteadyClock::read(), Duration(1));
  Result<std::vector<std::byte>> result =
      co_await session_->async_call({.extent = space_.extent(),
                                     .address = reinterpret_cast<std::uint64_t>(space_.memory().data()),
                                     .function = function.name,
                                     .version = function.version,
                                     .arguments = arguments,
                                     .time = left});
  if (result) co_return result;
  // Until the node has ended it for certain the pages are the function's.
  if (OffloadSession::may_run_on(result.error()))
    co_await scheduler_->sleep_until(deadline.instant() + OffloadSpace::kNodeLag);
  co_return count.failed(result.error());
}

}  // namespace yonder::heap
