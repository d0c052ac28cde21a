#include "bench/fragmentation/heap_replay.h"

#include "yonder/node/size_class.h"
#include "yonder/os/steady_clock.h"

namespace yonder::bench {
namespace {

const os::SteadyClock kClock;

}  // namespace

Result<HeapReplay> HeapReplay::create(const Options& options) {
  YONDER_TRY(heap, node::Heap::create(kClock, {.limit = Bytes(options.limit_bytes),
                                               .max_threads = options.threads,
                                               .seed = options.seed}));
  std::vector<node::HeapThread> threads;
  for (std::uint32_t i = 0; i < options.threads; ++i) {
    YONDER_TRY(thread, heap->register_thread());
    threads.push_back(std::move(thread));
  }
  return HeapReplay(std::move(heap), std::move(threads), options.seed);
}

Result<void> HeapReplay::allocate(std::uint32_t object, std::uint32_t bytes) {
  if (object >= objects_.size()) objects_.resize(std::size_t{object} + 1);
  YONDER_TRY(made, any_thread().alloc(bytes));
  objects_[object] = made;
  live_bytes_ += bytes;
  if (made.size_class() == node::kSpanClass) span_bytes_ += heap_->classes().span_bytes_for(bytes);
  return {};
}

Result<void> HeapReplay::free(std::uint32_t object) {
  const node::ObjectPtr gone = objects_[object];
  live_bytes_ -= gone.size();
  if (gone.size_class() == node::kSpanClass) span_bytes_ -= heap_->classes().span_bytes_for(gone.size());
  return any_thread().free(gone);
}

Footprint HeapReplay::footprint() const {
  const node::HeapStats stats = heap_->stats();
  Footprint out{.live_bytes = live_bytes_,
                .active_bytes = stats.active_bytes,
                .metadata_bytes = stats.metadata_bytes,
                .ideal_bytes = span_bytes_};
  for (std::size_t i = 0; i < heap_->classes().count(); ++i) {
    const node::SizeClass& shape = heap_->classes()[i];
    out.ideal_bytes += (stats.classes[i].live + shape.slots - 1) / shape.slots * shape.frame_bytes;
  }
  return out;
}

void HeapReplay::compact() {
  heap_->compactor().compact_all();
  // Nobody is inside an operation, so all that is free can go now.
  heap_->reclaim();
}

}  // namespace yonder::bench
