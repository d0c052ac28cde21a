#include "yonder/segment/agent.h"

#include <atomic>
#include <optional>
#include <thread>
#include <utility>

#include "yonder/segment/internal/agent_core.h"

namespace yonder::segment {

Result<std::unique_ptr<Agent>> Agent::create(fabric::Fabric& fabric, Arena& arena, Directory& directory,
                                             AgentOptions options) {
  auto core = std::make_unique<Core>(fabric, arena, directory, std::move(options));
  YONDER_TRY_VOID(core->start());
  return std::unique_ptr<Agent>(new Agent(std::move(core)));
}

Agent::Agent(std::unique_ptr<Core> core) : core_(std::move(core)) {}
Agent::~Agent() = default;

ProcessId Agent::id() const { return core_->id(); }

Result<Segment> Agent::allocate(Bytes bytes, Deadline deadline) { return core_->allocate(bytes, deadline); }
Result<void> Agent::deallocate(SegmentId segment, Deadline deadline) {
  return core_->deallocate(segment, deadline);
}
Result<void> Agent::connect(SegmentId segment, ProcessId target, ConnectOptions options, Deadline deadline) {
  return core_->connect(segment, target, options, deadline);
}
Result<void> Agent::cancel(SegmentId segment, Deadline deadline) { return core_->cancel(segment, deadline); }
Result<Transferred> Agent::transfer(SegmentId segment, Deadline deadline,
                                    const std::function<Result<void>()>& last_use) {
  return core_->transfer(segment, deadline, last_use);
}
Result<Segment> Agent::receive(Deadline deadline) { return core_->receive(deadline); }
Result<void> Agent::pull(SegmentId segment, ByteRange range, Deadline deadline) {
  return core_->pull(segment, range, deadline);
}
Result<void> Agent::close(SegmentId segment, Deadline deadline) { return core_->close(segment, deadline); }
Result<std::vector<ByteRange>> Agent::missing(SegmentId segment) const { return core_->missing(segment); }
Result<void> Agent::release(SegmentId segment, ByteRange range) { return core_->release(segment, range); }
std::vector<Migration> Agent::migrations() const { return core_->migrations(); }

// ---------------------------------------------------------------- coroutines

namespace {

// Runs `work` on a thread of its own; the coroutine looks now and then. Migrations are
// seldom and take at least tens of microseconds: a thread each is cheap enough.
template <typename T, typename Work>
fabric::Task<Result<T>> elsewhere(fabric::Scheduler& scheduler, const Clock& clock, Work work) {
  std::optional<Result<T>> result;
  std::atomic<bool> done{false};
  std::jthread thread([&] {
    result.emplace(work());
    done.store(true, std::memory_order_release);  // release: the result is there.
  });
  while (!done.load(std::memory_order_acquire)) {
    co_await scheduler.nap_until(clock.now() + std::chrono::microseconds(50));
  }
  thread.join();
  co_return std::move(*result);
}

}  // namespace

fabric::Task<Result<void>> Agent::async_connect(fabric::Scheduler& scheduler, SegmentId segment,
                                                ProcessId target, ConnectOptions options, Deadline deadline) {
  return elsewhere<void>(scheduler, core_->clock(), [this, segment, target, options, deadline] {
    return connect(segment, target, options, deadline);
  });
}
fabric::Task<Result<Transferred>> Agent::async_transfer(fabric::Scheduler& scheduler, SegmentId segment,
                                                        Deadline deadline) {
  return elsewhere<Transferred>(scheduler, core_->clock(),
                                [this, segment, deadline] { return transfer(segment, deadline); });
}
fabric::Task<Result<Segment>> Agent::async_receive(fabric::Scheduler& scheduler, Deadline deadline) {
  return elsewhere<Segment>(scheduler, core_->clock(), [this, deadline] { return receive(deadline); });
}
fabric::Task<Result<void>> Agent::async_pull(fabric::Scheduler& scheduler, SegmentId segment, ByteRange range,
                                             Deadline deadline) {
  return elsewhere<void>(scheduler, core_->clock(),
                         [this, segment, range, deadline] { return pull(segment, range, deadline); });
}
fabric::Task<Result<void>> Agent::async_close(fabric::Scheduler& scheduler, SegmentId segment,
                                              Deadline deadline) {
  return elsewhere<void>(scheduler, core_->clock(),
                         [this, segment, deadline] { return close(segment, deadline); });
}

}  // namespace yonder::segment
