#include "yonder/remote/atomics_service.h"

#include "yonder/rpc/message.h"

namespace yonder::remote {
namespace {

struct TryLockRequest {
  static constexpr bool kPlain = true;
  std::uint64_t lock = 0;
  std::int64_t lease_ns = 0;
};
struct TokenMessage {
  static constexpr bool kPlain = true;
  std::uint64_t token = 0;  // 0: somebody holds it.
};
struct UnlockRequest {
  static constexpr bool kPlain = true;
  std::uint64_t lock = 0;
  std::uint64_t token = 0;
};
struct TakeRequest {
  static constexpr bool kPlain = true;
  std::uint64_t sequencer = 0;
  std::uint64_t count = 0;
};
struct NumberMessage {
  static constexpr bool kPlain = true;
  std::uint64_t first = 0;
};

// Numbers apart from those of the memory node, so that one server can have both.
struct TryLock : rpc::MethodOf<400, TryLockRequest, TokenMessage> {};
struct Unlock : rpc::MethodOf<401, UnlockRequest, rpc::Empty> {};
struct Take : rpc::MethodOf<402, TakeRequest, NumberMessage> {};

}  // namespace

AtomicsService::AtomicsService(const Clock& clock, const AtomicsServiceOptions& options)
    : clock_(clock), locks_(options.locks), sequencers_(options.sequencers) {}

void AtomicsService::attach(rpc::Server& server) {
  server.handle<TryLock>([this](const rpc::Context&, const TryLockRequest& request) -> Result<TokenMessage> {
    YONDER_TRY(token, try_lock(static_cast<std::uint32_t>(request.lock), Duration(request.lease_ns)));
    return TokenMessage{token};
  });
  server.handle<Unlock>([this](const rpc::Context&, const UnlockRequest& request) -> Result<rpc::Empty> {
    YONDER_TRY_VOID(unlock(static_cast<std::uint32_t>(request.lock), request.token));
    return rpc::Empty{};
  });
  server.handle<Take>([this](const rpc::Context&, const TakeRequest& request) -> Result<NumberMessage> {
    YONDER_TRY(first, take(static_cast<std::uint32_t>(request.sequencer), request.count));
    return NumberMessage{first};
  });
}

Result<std::uint64_t> AtomicsService::try_lock(std::uint32_t lock, Duration lease) {
  const Instant now = clock_.now();
  sync::LockGuard guard(mutex_);
  if (lock >= locks_.size()) return fail(ErrorCode::kNotFound, "lock by request", lock);
  LockState& state = locks_[lock];
  if (state.is_held && now < state.expires) return 0;
  state.is_held = true;
  state.expires = now + lease;
  return ++state.token;
}

Result<void> AtomicsService::unlock(std::uint32_t lock, std::uint64_t token) {
  sync::LockGuard guard(mutex_);
  if (lock >= locks_.size()) return fail(ErrorCode::kNotFound, "unlock by request", lock);
  LockState& state = locks_[lock];
  if (!state.is_held || state.token != token) return fail(ErrorCode::kLeaseLost, "unlock by request", lock);
  state.is_held = false;
  return {};
}

Result<std::uint64_t> AtomicsService::take(std::uint32_t sequencer, std::uint64_t count) {
  sync::LockGuard guard(mutex_);
  if (sequencer >= sequencers_.size()) return fail(ErrorCode::kNotFound, "numbers by request", sequencer);
  if (count == 0) return fail(ErrorCode::kInvalidArgument, "reserve no numbers");
  const std::uint64_t first = sequencers_[sequencer];
  sequencers_[sequencer] += count;
  return first;
}

RpcLock::RpcLock(rpc::Client& client, fabric::Scheduler& scheduler, std::uint32_t lock,
                 const RpcLockOptions& options)
    : client_(client), scheduler_(scheduler), lock_(lock), options_(options), random_(options.seed) {}

Task<Result<std::uint64_t>> RpcLock::async_lock(Deadline deadline) {
  const Clock& clock = client_.queue().clock();
  deadline = deadline.or_default(Deadline::after(clock, std::chrono::seconds(5)));
  const TryLockRequest request{lock_, options_.lease.count()};
  Backoff backoff(options_.backoff, random_);
  for (;;) {
    const Result<TokenMessage> answer = co_await client_.call<TryLock>(request, deadline);
    if (!answer) co_return std::unexpected(answer.error());
    if (answer->token != 0) co_return answer->token;
    if (deadline.passed(clock.now())) co_return fail(ErrorCode::kDeadlineExceeded, "lock by request", lock_);
    if (backoff.wants_pause()) co_await scheduler_.sleep_for(backoff.next());
  }
}

Task<Result<void>> RpcLock::async_unlock(std::uint64_t token, Deadline deadline) {
  const UnlockRequest request{lock_, token};
  const Result<rpc::Empty> answer = co_await client_.call<Unlock>(request, deadline);
  co_return outcome_of(answer);
}

Task<Result<std::uint64_t>> RpcSequencer::async_reserve(std::uint64_t count, Deadline deadline) {
  const TakeRequest request{sequencer_, count};
  const Result<NumberMessage> answer = co_await client_.call<Take>(request, deadline);
  if (!answer) co_return std::unexpected(answer.error());
  co_return answer->first;
}

}  // namespace yonder::remote
