#pragma once
// Graphs for the two graph workloads: edges that follow from a seed, with a few vertices that
// have very many of them, as social networks have.
//
// Concurrency: one thread per EdgeStream. Lifetime: values.

#include <cstdint>

#include "yonder/base/distribution.h"
#include "yonder/base/prng.h"

namespace yonder::bench::heap {

struct Edge {
  std::uint32_t from;
  std::uint32_t to;
};

struct EdgeStreamOptions {
  std::uint32_t vertices = 2;  // At least 2 for each thread.
  double theta = 0.6;          // How unequal the vertices are, in [0, 1): see Zipfian.
  std::uint64_t seed = 1;
  // The edges of thread `thread` end at the vertices v with v % threads == thread: so threads
  // that build a graph together never meet in a vertex, and it does not depend on their speed.
  unsigned thread = 0;
  unsigned threads = 1;
};

class EdgeStream {
 public:
  explicit EdgeStream(const EdgeStreamOptions& options)
      : options_(options),
        ranks_({.items = options.vertices, .theta = options.theta}),
        random_(options.seed * 1'000'003 + options.thread) {}

  Edge next() {
    Edge edge{.from = vertex(), .to = own(vertex())};
    while (edge.from == edge.to) edge.from = vertex();
    return edge;
  }

 private:
  // Hot vertices lie scattered.
  std::uint32_t vertex() {
    std::uint64_t rank = ranks_.next(random_);
    return static_cast<std::uint32_t>(splitmix64(rank) % options_.vertices);
  }
  std::uint32_t own(std::uint32_t v) const {
    const std::uint32_t mine = v - v % options_.threads + options_.thread;
    return mine < options_.vertices ? mine : options_.thread;
  }

  EdgeStreamOptions options_;
  Zipfian ranks_;
  Prng random_;
};

}  // namespace yonder::bench::heap
