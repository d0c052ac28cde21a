#include "bench/heap/page_rank.h"

#include <array>
#include <bit>
#include <vector>

#include "bench/heap/graph.h"
#include "bench/heap/memory.h"
#include "bench/heap/workers.h"

namespace yonder::bench::heap {
namespace {

constexpr unsigned kBatches = 3;
constexpr unsigned kIterations = 3;  // After each batch.
constexpr double kDamping = 0.85;
constexpr std::uint64_t kEdgesPerVertex = 20;

// 64 bytes.
template <typename Memory>
struct EdgeBlock {
  static constexpr std::size_t kEdges = 13;
  typename Memory::template Ptr<EdgeBlock> next;
  std::uint32_t count = 0;
  std::array<std::uint32_t, kEdges> from{};
};

}  // namespace
}  // namespace yonder::bench::heap

template <typename Memory>
struct yonder::heap::is_relocatable<yonder::bench::heap::EdgeBlock<Memory>> : std::true_type {};

namespace yonder::bench::heap {
namespace {

template <typename Memory>
class Graph {
 public:
  explicit Graph(std::uint32_t vertices)
      : heads_(vertices), out_degree_(vertices), rank_(vertices, 1.0), share_(vertices) {}
  // Lists are taken apart from their beginning: a destructor that follows `next` would hold as
  // many blocks as the list has.
  ~Graph() {
    for (Head& head : heads_) {
      while (head) {
        Head next = std::move(head.write()->next);
        head = std::move(next);
      }
    }
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Of edges that end at one vertex, by one thread.
  void add(Edge edge) {
    Head& head = heads_[edge.to];
    if (!head || head.read()->count == Block::kEdges) {
      Head block = Memory::template make<Block>();
      block.write()->next = std::move(head);
      head = std::move(block);
    }
    const auto block = head.write();
    block->from[block->count++] = edge.from;
    // relaxed: read after the threads have ended.
    std::atomic_ref(out_degree_[edge.from]).fetch_add(1, std::memory_order_relaxed);
  }

  // What every vertex gives to each of those it points to.
  void divide_ranks(unsigned thread, unsigned threads) {
    for (std::size_t v = thread; v < share_.size(); v += threads)
      share_[v] = out_degree_[v] == 0 ? 0 : rank_[v] / out_degree_[v];
  }
  // Ranks of the vertices of this thread; how many edges that took.
  std::uint64_t gather_ranks(unsigned thread, unsigned threads) {
    const std::size_t begin = share_.size() * thread / threads;
    const std::size_t end = share_.size() * (thread + 1) / threads;
    std::uint64_t edges = 0;
    for (std::size_t v = begin; v < end; ++v) {
      double sum = 0;
      edges += gather(heads_[v], sum);
      rank_[v] = (1 - kDamping) + kDamping * sum;
    }
    return edges;
  }

  std::uint64_t checksum() const {
    std::uint64_t sum = 0;
    for (const double rank : rank_) sum = sum * 31 + std::bit_cast<std::uint64_t>(rank);
    return sum;
  }

 private:
  using Block = EdgeBlock<Memory>;
  using Head = typename Memory::template Ptr<Block>;

  std::uint64_t gather(const Head& head, double& sum) const {
    if (!head) return 0;
    std::uint64_t edges = 0;
    auto block = head.read();
    for (;;) {
      for (std::uint32_t i = 0; i < block->count; ++i) sum += share_[block->from[i]];
      edges += block->count;
      if (!block->next) return edges;
      block = block->next.read();
    }
  }

  std::vector<Head> heads_;
  std::vector<std::uint32_t> out_degree_;
  std::vector<double> rank_;
  std::vector<double> share_;
};

}  // namespace

template <typename Memory>
Measured run_page_rank(const Work& work) {
  // Half-empty last blocks included, an edge takes about 6 bytes.
  const std::uint64_t edges = work.bytes / 6;
  const auto vertices = static_cast<std::uint32_t>(edges / kEdgesPerVertex);
  Graph<Memory> graph(vertices);
  std::vector<Measured> results(work.threads);
  std::vector<EdgeStream> streams;
  for (unsigned t = 0; t < work.threads; ++t)
    streams.emplace_back(
        EdgeStreamOptions{.vertices = vertices, .seed = work.seed, .thread = t, .threads = work.threads});
  if (work.on_measure) work.on_measure();
  const Instant begin = os::SteadyClock::read();
  for (unsigned batch = 0; batch < kBatches; ++batch) {
    on_threads(work.threads, [&](unsigned t) {
      for (std::uint64_t i = 0; i < edges / kBatches / work.threads; ++i) graph.add(streams[t].next());
      results[t].operations += edges / kBatches / work.threads;
    });
    for (unsigned iteration = 0; iteration < kIterations; ++iteration) {
      on_threads(work.threads, [&](unsigned t) { graph.divide_ranks(t, work.threads); });
      on_threads(work.threads,
                 [&](unsigned t) { results[t].operations += graph.gather_ranks(t, work.threads); });
    }
  }
  const double seconds = seconds_since(begin);
  results[0].checksum = graph.checksum();
  return finish(work, results, seconds);
}

template Measured run_page_rank<Far>(const Work&);
template Measured run_page_rank<Plain>(const Work&);
template Measured run_page_rank<Faulted>(const Work&);

}  // namespace yonder::bench::heap
