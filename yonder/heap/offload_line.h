#pragma once
// OffloadLine: many calls of functions by one thread, which goes on while they run.
//
//   auto line = far::OffloadLine::connect(*space).value();
//   fabric::Task<void> add_up(std::span<double> prices, double& total) {
//     const Result<double> sum =
//         co_await line->async_call<double>({"prices.sum", 1}, SumOf{…}, far::lent(far::reads(prices)),
//         100ms);
//     …
//   }
//   for (auto part : parts) line->scheduler().spawn(add_up(part, …));
//   YONDER_TRY_VOID(line->scheduler().run(Deadline::after(clock, 1s)));
//
// The same calls as OffloadSpace::call, as coroutines on a completion queue: with functions on
// several nodes, or beside other requests of the thread, one scheduler waits for all. A call
// suspends while its ranges are lent to others and while the function runs; what is dirty in
// its ranges is written by the thread itself, before the request leaves.
//
// A thread must not touch what its own calls have lent, in the way that waits (offload_space.h):
// it would wait for an answer that only it can take.
//
// Concurrency: one thread, the one that uses the queue; the space is for all.
// Lifetime: the space (and queue and scheduler, if they are given) outlive the line; tasks end
// before it.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/client/offload_session.h"
#include "yonder/fabric/scheduler.h"
#include "yonder/fabric/task.h"
#include "yonder/heap/offload_space.h"

namespace yonder::heap {

// The ranges of a call. (In a coroutine g++ 12 takes no list in braces.)
template <std::same_as<LentRange>... Ranges>
std::vector<LentRange> lent(const Ranges&... ranges) {
  std::vector<LentRange> all;
  all.reserve(sizeof...(ranges));
  (all.push_back(ranges), ...);
  return all;
}

struct OffloadLineOptions {
  std::uint32_t depth = 16;  // Calls on the way; more of them wait their turn.
  // To share with other users of the thread; null: the line's own.
  fabric::CompletionQueue* queue = nullptr;
  fabric::Scheduler* scheduler = nullptr;  // Of that queue.
};

class OffloadLine {
 public:
  // Errors of client::OffloadSession::connect.
  static Result<std::unique_ptr<OffloadLine>> connect(OffloadSpace& space,
                                                      const OffloadLineOptions& options = {});
  ~OffloadLine();
  OffloadLine(const OffloadLine&) = delete;
  OffloadLine& operator=(const OffloadLine&) = delete;

  // As OffloadSpace::call_raw. The name and the arguments live until the task has ended.
  fabric::Task<Result<std::vector<std::byte>>> async_call_raw(FunctionId function,
                                                              std::span<const std::byte> arguments,
                                                              std::vector<LentRange> ranges, Duration time);
  // As OffloadSpace::call. The name lives until the task has ended.
  template <typename R, typename A>
  fabric::Task<Result<R>> async_call(FunctionId function, A arguments, std::vector<LentRange> ranges,
                                     Duration time) {
    static_assert(std::is_trivially_copyable_v<A>, "arguments travel as bytes");
    const Result<std::vector<std::byte>> bytes =
        co_await async_call_raw(function, std::as_bytes(std::span(&arguments, 1)), std::move(ranges), time);
    if (!bytes) co_return std::unexpected(bytes.error());
    co_return result_from_bytes<R>(*bytes);
  }

  fabric::Scheduler& scheduler() { return *scheduler_; }

 private:
  explicit OffloadLine(OffloadSpace& space) : space_(space) {}
  fabric::Task<Result<PagedSpace::Lend>> lend(std::span<const LentRange> ranges, Deadline deadline);

  OffloadSpace& space_;
  std::unique_ptr<fabric::CompletionQueue> own_queue_;
  std::unique_ptr<fabric::Scheduler> own_scheduler_;
  fabric::Scheduler* scheduler_ = nullptr;
  std::unique_ptr<client::OffloadSession> session_;
};

}  // namespace yonder::heap
