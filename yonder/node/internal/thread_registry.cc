#include "yonder/node/internal/thread_registry.h"

#include "yonder/base/check.h"

namespace yonder::node::internal {
namespace {

// A kept slot keeps its frame from being given back, so few bytes of them: enough
// for the pairs of free and alloc that programs make, none worth a collection.
constexpr std::uint32_t kKeptBytes = 16 << 10;

std::vector<Bin> make_bins(const SizeClasses& classes) {
  std::vector<Bin> bins(classes.count() + 1);
  for (std::size_t i = 0; i < classes.count(); ++i) {
    bins[i].keeps = std::clamp(kKeptBytes / classes[i].slot_bytes, 1u, Bin::kMaxKept);
  }
  return bins;
}

}  // namespace

ThreadRegistry::ThreadRegistry(const Options& options)
    : max_threads_(options.max_threads), records_(std::make_unique<ThreadRecord[]>(options.max_threads)) {
  // Without the system call (old kernel, filter) threads fence themselves.
  if (auto membarrier = os::Membarrier::create(os::Membarrier::Scope::kPrivate)) membarrier_ = *membarrier;
  Prng random(options.seed);
  std::uint32_t index = 0;
  for (ThreadRecord& record : std::span(records_.get(), max_threads_)) {
    record.index = index++;
    record.asymmetric = membarrier_.has_value();
    record.random = random.split();
    record.bins = make_bins(*options.classes);
  }
}

Result<ThreadRecord*> ThreadRegistry::add() {
  sync::LockGuard lock(mutex_);
  for (ThreadRecord& record : records()) {
    if (record.registered) continue;
    record.registered = true;
    return &record;
  }
  const std::uint32_t used = used_.load(std::memory_order_relaxed);
  if (used < max_threads_) {
    records_[used].registered = true;
    // release: pairs with the acquire in records().
    used_.store(used + 1, std::memory_order_release);
    return &records_[used];
  }
  return fail(ErrorCode::kResourceExhausted, "register a thread with the heap", max_threads_);
}

GracePeriod ThreadRegistry::start_grace() const {
  // After the barrier, a thread that shows no section will not find what was made
  // unfindable before, and one that found it shows its section.
  barrier();
  GracePeriod period;
  for (const ThreadRecord& record : records()) {
    const std::uint64_t activity = record.activity.load(std::memory_order_acquire);
    if ((activity & kInSection) != 0) period.readers_.emplace_back(&record, activity);
  }
  return period;
}

void ThreadRegistry::remove(ThreadRecord& record) {
  sync::LockGuard lock(mutex_);
  YONDER_CHECK(record.registered && (record.activity.load(std::memory_order_relaxed) & kInSection) == 0,
               "a thread leaves between operations");
  record.registered = false;
}

}  // namespace yonder::node::internal
