#pragma once
// HeapReplay: our heap under the allocations and frees of a trace.
//
// Not a model: a node's Heap with T registered threads, of which one is drawn for
// every operation, as the CoRM paper does (§4.4.3), and its Compactor.
//
// Concurrency: one thread plays all of them. Lifetime: owns its heap.

#include <cstdint>
#include <memory>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/base/result.h"
#include "yonder/node/heap.h"

namespace yonder::bench {

struct Footprint {
  std::uint64_t live_bytes = 0;      // As asked for.
  std::uint64_t active_bytes = 0;    // Frames, headers included.
  std::uint64_t metadata_bytes = 0;  // Beside the frames.
  // As many frames as the live objects of each class fill, and the spans: the least
  // that a compactor which keeps classes apart can reach.
  std::uint64_t ideal_bytes = 0;
};

class HeapReplay {
 public:
  struct Options {
    std::uint32_t threads = 1;
    std::uint64_t seed = 1;
    std::uint64_t limit_bytes = std::uint64_t{16} << 30;
  };
  static Result<HeapReplay> create(const Options& options);

  // `object` names the object until free(); at most one live object per name.
  Result<void> allocate(std::uint32_t object, std::uint32_t bytes);
  Result<void> free(std::uint32_t object);

  // As it is now.
  Footprint footprint() const;
  // Compacts all classes and gives back what is free.
  void compact();

  const node::Heap& heap() const { return *heap_; }

 private:
  HeapReplay(std::unique_ptr<node::Heap> heap, std::vector<node::HeapThread> threads, std::uint64_t seed)
      : heap_(std::move(heap)), threads_(std::move(threads)), random_(seed) {}
  node::HeapThread& any_thread() { return threads_[random_.below(threads_.size())]; }

  std::unique_ptr<node::Heap> heap_;
  std::vector<node::HeapThread> threads_;  // Go before their heap.
  Prng random_;
  std::vector<node::ObjectPtr> objects_;  // By name.
  std::uint64_t live_bytes_ = 0;
  std::uint64_t span_bytes_ = 0;
};

}  // namespace yonder::bench
