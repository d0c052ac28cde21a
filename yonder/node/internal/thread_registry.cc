#include "yonder/node/internal/thread_registry.h"

#include "yonder/base/check.h"

namespace yonder::node::internal {

ThreadRegistry::ThreadRegistry(const Options& options)
    : max_threads_(options.max_threads), records_(std::make_unique<ThreadRecord[]>(options.max_threads)) {
  // Without the system call (old kernel, filter) threads fence themselves.
  if (auto membarrier = os::Membarrier::create(os::Membarrier::Scope::kPrivate)) membarrier_ = *membarrier;
  Prng random(options.seed);
  for (ThreadRecord& record : records()) {
    record.asymmetric = membarrier_.has_value();
    record.random = random.split();
    record.bins = std::vector<Bin>(options.bins);
  }
}

Result<ThreadRecord*> ThreadRegistry::add() {
  sync::LockGuard lock(mutex_);
  for (ThreadRecord& record : records()) {
    if (record.registered) continue;
    record.registered = true;
    return &record;
  }
  return fail(ErrorCode::kResourceExhausted, "register a thread with the heap", max_threads_);
}

GracePeriod ThreadRegistry::start_grace() const {
  // After the barrier, a thread that shows no section will not find what was made
  // unfindable before, and one that found it shows its section.
  barrier();
  GracePeriod period;
  for (const ThreadRecord& record : records()) {
    const std::uint64_t section = record.section.load(std::memory_order_acquire);
    if (section % 2 != 0) period.readers_.emplace_back(&record, section);
  }
  return period;
}

void ThreadRegistry::remove(ThreadRecord& record) {
  sync::LockGuard lock(mutex_);
  YONDER_CHECK(record.registered && record.section.load(std::memory_order_relaxed) % 2 == 0,
               "a thread leaves between operations");
  record.registered = false;
}

}  // namespace yonder::node::internal
