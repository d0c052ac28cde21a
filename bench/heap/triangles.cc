#include "bench/heap/triangles.h"

#include <vector>

#include "bench/heap/graph.h"
#include "bench/heap/memory.h"
#include "bench/heap/neighbour_tree.h"
#include "bench/heap/workers.h"

namespace yonder::bench::heap {
namespace {

constexpr unsigned kBatches = 3;
constexpr std::uint64_t kEdgesPerVertex = 16;
// Skew is milder than GPR's: counting is quadratic in the degree, and a few vertices would be
// all that is measured.
constexpr double kTheta = 0.3;
// Triangles are counted at every 32nd vertex, others after each batch.
constexpr std::uint32_t kCountedStep = 32;

std::uint64_t common(const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b) {
  std::uint64_t count = 0;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    count += a[i] == b[j] ? 1 : 0;
    const bool step_a = a[i] <= b[j];
    const bool step_b = b[j] <= a[i];
    i += step_a ? 1 : 0;
    j += step_b ? 1 : 0;
  }
  return count;
}

template <typename Memory>
using Trees = std::vector<NeighbourTree<Memory>>;

// Both ends learn of an edge; a thread inserts at its own vertices only, so it draws the edges of
// all threads.
template <typename Memory>
void insert_batch(Trees<Memory>& trees, std::vector<EdgeStream>& streams, std::uint64_t edges,
                  unsigned thread, Measured& measured) {
  const auto threads = static_cast<unsigned>(streams.size());
  const auto insert = [&](std::uint32_t at, std::uint32_t neighbour) {
    if (at % threads != thread) return;
    measured.checksum += trees[at].insert(neighbour) ? at ^ neighbour : 1;
    ++measured.operations;
  };
  for (EdgeStream& stream : streams) {
    for (std::uint64_t i = 0; i < edges; ++i) {
      const Edge edge = stream.next();
      insert(edge.from, edge.to);
      insert(edge.to, edge.from);
    }
  }
}

// Triangles u < v < w at the vertices u of this thread.
template <typename Memory>
void count_triangles(const Trees<Memory>& trees, std::uint32_t first, unsigned thread, unsigned threads,
                     Measured& measured) {
  std::vector<std::uint32_t> near;
  std::vector<std::uint32_t> far_side;
  for (std::size_t u = first + std::size_t{kCountedStep} * thread; u < trees.size();
       u += kCountedStep * threads) {
    near.clear();
    trees[u].collect(static_cast<std::uint32_t>(u), near);
    for (const std::uint32_t v : near) {
      far_side.clear();
      trees[v].collect(v, far_side);
      measured.checksum += common(near, far_side) * v;
      ++measured.operations;
    }
  }
}

}  // namespace

template <typename Memory>
Measured run_triangles(const Work& work) {
  // An edge is in two runs; those are two thirds full, and a node has 24 bytes besides.
  const std::uint64_t edges = work.bytes / 16;
  const auto vertices = static_cast<std::uint32_t>(edges / kEdgesPerVertex);
  Trees<Memory> trees(vertices);
  std::vector<Measured> results(work.threads);
  std::vector<std::vector<EdgeStream>> streams(work.threads);
  for (std::vector<EdgeStream>& own : streams)
    for (unsigned t = 0; t < work.threads; ++t)
      own.emplace_back(EdgeStreamOptions{
          .vertices = vertices, .theta = kTheta, .seed = work.seed, .thread = t, .threads = work.threads});
  if (work.on_measure) work.on_measure();
  const Instant begin = os::SteadyClock::read();
  for (unsigned batch = 0; batch < kBatches; ++batch) {
    on_threads(work.threads, [&](unsigned t) {
      insert_batch(trees, streams[t], edges / kBatches / work.threads, t, results[t]);
    });
    on_threads(work.threads, [&](unsigned t) { count_triangles(trees, batch, t, work.threads, results[t]); });
  }
  return finish(work, results, seconds_since(begin));
}

template Measured run_triangles<Far>(const Work&);
template Measured run_triangles<Plain>(const Work&);
template Measured run_triangles<Faulted>(const Work&);

}  // namespace yonder::bench::heap
