#include "yonder/fabric/sim/internal/queue.h"

#include "yonder/base/check.h"
#include "yonder/fabric/sim/internal/engine.h"

namespace yonder::fabric::sim {

QueueImpl::QueueImpl(Engine& engine, HostState& host, std::uint32_t capacity, std::uint32_t socket)
    : CompletionQueue(capacity),
      engine_(engine),
      host_(host),
      socket_(socket),
      ref_(engine.queues().add(*this)),
      raw_(capacity),
      operations_(capacity) {
  ++host_.made;
}

QueueImpl::~QueueImpl() {
  YONDER_CHECK(reserved_ == 0, "a completion queue outlives its endpoints");
  engine_.queues().remove(ref_);
  --host_.made;
}

const Clock& QueueImpl::clock() const { return engine_.clock(); }

bool QueueImpl::try_reserve(std::uint32_t completions) {
  if (completions > capacity() - reserved_) return false;
  reserved_ += completions;
  return true;
}

Ticks QueueImpl::spend(Ticks duration) {
  cpu_free_ = std::max(cpu_free_, engine_.now()) + host_.scaled(duration);
  return cpu_free_;
}

void QueueImpl::have_spent(Ticks duration) {
  const Ticks scaled = host_.scaled(duration);
  cpu_free_ = std::max(cpu_free_, engine_.now() - scaled) + scaled;
}

void QueueImpl::charge(CpuWork work, std::size_t count, std::uint64_t bytes) {
  const NicModel& model = host_.nic(0).model();
  const auto times = static_cast<Ticks>(count);
  switch (work) {
    case CpuWork::kCopy:
      spend(times * model.copy_piece + static_cast<Ticks>(bytes) * model.copy_byte);
      break;
    case CpuWork::kRequest:
      spend(times * model.request_cpu);
      break;
    case CpuWork::kFarLine:
      spend(times * model.far_line);
      break;
  }
}

void QueueImpl::call(const Completion& completion) {
  spend(host_.nic(0).model().poll);
  engine_.count_operation();
  dispatch(completion);
}

void QueueImpl::deliver(const Completion& completion) {
  const bool is_operation = has(completion.flags, RequestFlags::kOperation);
  if (is_operation && operations_.empty() && cpu_free_ <= engine_.now()) return call(completion);
  deliver_later(completion);
}

void QueueImpl::deliver_later(const Completion& completion) {
  if (!has(completion.flags, RequestFlags::kOperation)) {
    raw_.push(completion);
    return;
  }
  operations_.push(completion);
  schedule_drain();
}

void QueueImpl::schedule_drain() {
  if (drain_scheduled_) return;
  drain_scheduled_ = true;
  engine_.events().push(std::max(cpu_free_, engine_.now()), EventKind::kDrain, ref_);
}

void QueueImpl::drain() {
  drain_scheduled_ = false;
  if (operations_.empty()) return;
  if (cpu_free_ > engine_.now()) return schedule_drain();
  const Completion completion = operations_.pop();
  if (!operations_.empty()) {
    // One at a time: the thread is busy with this one until cpu_free_.
    drain_scheduled_ = true;
    engine_.events().push(engine_.now() + 1, EventKind::kDrain, ref_);
  }
  call(completion);
}

std::size_t QueueImpl::do_poll(std::span<Completion> out) {
  std::size_t count = 0;
  while (count < out.size() && !operations_.empty()) {
    engine_.count_operation();
    out[count++] = operations_.pop();
  }
  while (count < out.size() && !raw_.empty()) out[count++] = raw_.pop();
  if (count > 0) spend(static_cast<Ticks>(count) * host_.nic(0).model().poll);
  return count;
}

Result<void> QueueImpl::do_wait(Deadline deadline) { return engine_.wait(*this, deadline); }

}  // namespace yonder::fabric::sim
