#include "bench/heap/data_frame.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "bench/heap/memory.h"
#include "bench/heap/workers.h"
#include "yonder/base/prng.h"

namespace yonder::bench::heap {
namespace {

// And as many copies: a column is a quarter of the memory, so that a shuffle of one column is
// already more than a small local memory holds.
constexpr unsigned kColumns = 2;
constexpr std::size_t kRowsPerChunk = 64;
// A shuffle says so early which rows it will need, whatever the memory: first it has the pointer
// come near, then what it points to.
constexpr std::size_t kRowsAhead = 16;

template <typename Memory>
class Column {
 public:
  // Requires whole chunks.
  explicit Column(std::size_t rows) : chunks_(rows / kRowsPerChunk) {}

  std::size_t chunks() const { return chunks_.size(); }
  auto read(std::size_t chunk) const { return chunks_[chunk].read(); }
  std::uint64_t at(std::size_t row) const { return chunks_[row / kRowsPerChunk].read()[row % kRowsPerChunk]; }
  void prefetch_pointer(std::size_t row) const { __builtin_prefetch(&chunks_[row / kRowsPerChunk]); }
  void prefetch(std::size_t row) const { chunks_[row / kRowsPerChunk].prefetch(row % kRowsPerChunk); }
  // A fresh chunk, for writing.
  auto renew(std::size_t chunk) {
    chunks_[chunk] = Memory::template make_array<std::uint64_t>(kRowsPerChunk);
    return chunks_[chunk].write();
  }

 private:
  std::vector<typename Memory::template Ptr<std::uint64_t[]>> chunks_;
};

// Chunks [begin, end) of a column.
struct Part {
  std::size_t begin;
  std::size_t end;
};

template <typename Memory>
void fill(Column<Memory>& column, Part part, Prng random) {
  for (std::size_t c = part.begin; c < part.end; ++c)
    for (std::uint64_t& value : column.renew(c)) value = random() >> 1;
}

template <typename Memory>
void copy(const Column<Memory>& from, Column<Memory>& to, Part part) {
  for (std::size_t c = part.begin; c < part.end; ++c) {
    const auto in = from.read(c);
    const auto out = to.renew(c);
    std::memcpy(out.data(), in.data(), kRowsPerChunk * sizeof(std::uint64_t));
  }
}

template <typename Memory>
void shuffle(const Column<Memory>& from, const std::vector<std::uint32_t>& order, Column<Memory>& to,
             Part part) {
  for (std::size_t c = part.begin; c < part.end; ++c) {
    const auto out = to.renew(c);
    const std::size_t first = c * kRowsPerChunk;
    const auto ahead = [&](std::size_t rows) { return order[std::min(first + rows, order.size() - 1)]; };
    for (std::size_t i = 0; i < kRowsPerChunk; ++i) {
      from.prefetch_pointer(ahead(i + 2 * kRowsAhead));
      from.prefetch(ahead(i + kRowsAhead));
      out[i] = from.at(order[first + i]);
    }
  }
}

// Depends on the order of the rows.
template <typename Memory>
std::uint64_t checksum(const Column<Memory>& column, Part part) {
  std::uint64_t sum = 0;
  for (std::size_t c = part.begin; c < part.end; ++c)
    for (const std::uint64_t value : column.read(c)) sum = sum * 31 + value;
  return sum;
}

std::vector<std::uint32_t> random_order(std::size_t rows, std::uint64_t seed) {
  std::vector<std::uint32_t> order(rows);
  std::iota(order.begin(), order.end(), 0);
  Prng random(seed);
  for (std::size_t i = rows; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

}  // namespace

template <typename Memory>
Measured run_data_frame(const Work& work) {
  const std::size_t rows =
      work.bytes / (2 * kColumns * sizeof(std::uint64_t)) / kRowsPerChunk * kRowsPerChunk;
  std::vector<Column<Memory>> columns;
  std::vector<Column<Memory>> copies;
  for (unsigned i = 0; i < kColumns; ++i) {
    columns.emplace_back(rows);
    copies.emplace_back(rows);
  }
  const auto part = [&](unsigned t) {
    const std::size_t chunks = columns[0].chunks();
    return Part{.begin = chunks * t / work.threads, .end = chunks * (t + 1) / work.threads};
  };
  const std::vector<std::uint32_t> order = random_order(rows, work.seed);
  on_threads(work.threads, [&](unsigned t) {
    for (unsigned i = 0; i < kColumns; ++i) fill(columns[i], part(t), Prng(work.seed * 7 + i * 64 + t));
  });
  std::vector<Measured> results(work.threads);
  if (work.on_measure) work.on_measure();
  const Instant begin = os::SteadyClock::read();
  const auto each_column = [&](auto operate) {
    for (unsigned i = 0; i < kColumns; ++i)
      on_threads(work.threads, [&](unsigned t) {
        operate(i, part(t));
        results[t].operations += (part(t).end - part(t).begin) * kRowsPerChunk;
      });
  };
  each_column([&](unsigned i, Part p) { copy(columns[i], copies[i], p); });
  each_column([&](unsigned i, Part p) { shuffle(columns[i], order, copies[i], p); });
  each_column([&](unsigned i, Part p) { copy(copies[i], columns[i], p); });
  const double seconds = seconds_since(begin);
  for (unsigned i = 0; i < kColumns; ++i)
    for (unsigned t = 0; t < work.threads; ++t) results[t].checksum += checksum(columns[i], part(t));
  return finish(work, results, seconds);
}

template Measured run_data_frame<Far>(const Work&);
template Measured run_data_frame<Plain>(const Work&);
template Measured run_data_frame<Faulted>(const Work&);

}  // namespace yonder::bench::heap
