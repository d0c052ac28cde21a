#pragma once
// How long things took: a histogram with a bounded relative error, HDR style.
//
// Latencies span nanoseconds to minutes, and the slow ones matter most, so
// neither equal buckets nor a sorted list will do. Here each power of two is cut
// into 2^b equal buckets: small values are exact, every larger one is known to
// within 2^-b of itself, memory is fixed when the object is made, and recording
// is a shift and an increment.
//
//   value        0 … 2^(b+1)-1     2^(b+1) … 2^(b+2)-1    2^(b+2) … 2^(b+3)-1
//   bucket width      1                    2                      4          …
//   bucket index = value           = 2^b·shift + (value >> shift), shift = log2(width)
//
//   Histogram latency_ns;                     // error at most 1 %, up to one hour
//   latency_ns.record(elapsed.count());
//   latency_ns.percentile(99.9);
//
// Percentiles report the upper end of their bucket (never above max()), so they
// do not flatter: the truth is at most 2^-b below. min, max, mean and count are exact.
// Values above the limit count as the limit, and clamped() says how many there were.
//
// Concurrency: one thread at a time per object. Threads record into their own and
// merge. Lifetime: owns its memory; record() never allocates.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace yonder {

struct HistogramOptions {
  // 1 to 4: the relative error is at most 10^-digits. Two digits to one hour in
  // nanoseconds take 36 KiB, four take 3.6 MiB.
  int significant_digits = 2;
  // The largest value told apart; at least 1.
  std::uint64_t max_value = 3'600'000'000'000;

  friend bool operator==(const HistogramOptions&, const HistogramOptions&) = default;
};

class Histogram {
 public:
  // Requires options within the bounds above.
  explicit Histogram(const HistogramOptions& options = {});

  void record(std::uint64_t value) { record_n(value, 1); }
  void record_n(std::uint64_t value, std::uint64_t times);

  // For a closed loop that should have sent one request every `expected_interval`:
  // a slow answer also delayed the requests behind it, which were then never
  // measured. Records the value and those it hid: value - interval, value - 2
  // intervals, … down to one interval. An interval of 0 records the value alone.
  // Costs at most one step per bucket, however small the interval.
  void record_corrected(std::uint64_t value, std::uint64_t expected_interval);

  // Adds all that `other` recorded. Requires equal options.
  void merge(const Histogram& other);
  void reset();

  // The smallest recorded value that at least `percent` per cent of all values do
  // not exceed, to within the error. Requires 0 <= percent <= 100; 0 if empty.
  std::uint64_t percentile(double percent) const;

  std::uint64_t count() const { return count_; }
  std::uint64_t clamped() const { return clamped_; }
  std::uint64_t min() const { return count_ == 0 ? 0 : min_; }
  std::uint64_t max() const { return max_; }
  double mean() const;    // 0 if empty.
  double stddev() const;  // Of the whole population; from bucket middles.

  const HistogramOptions& options() const { return options_; }
  std::size_t memory_bytes() const { return counts_.size() * sizeof(counts_[0]); }

  struct Bucket {
    std::uint64_t low;   // The smallest value that falls here…
    std::uint64_t high;  // …and the largest.
    std::uint64_t count;
  };
  // Calls `visit(const Bucket&)` for every bucket that is not empty, in ascending order.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      if (counts_[i] != 0) visit(Bucket{.low = low_of(i), .high = high_of(i), .count = counts_[i]});
    }
  }

  // Aborts unless counts, extremes and sum agree with each other. For tests.
  void check_invariants() const;

 private:
  __extension__ using Wide = unsigned __int128;  // 2^64 values of 2^64 cannot overflow it.

  std::size_t index_of(std::uint64_t value) const;
  std::uint64_t low_of(std::size_t index) const;
  std::uint64_t high_of(std::size_t index) const;
  // `times` values in one bucket, all within [low, high], with their exact sum.
  void add(std::size_t index, std::uint64_t times, Wide sum, std::uint64_t low, std::uint64_t high);

  HistogramOptions options_;
  int bits_;  // b in the drawing.
  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0;
  std::uint64_t clamped_ = 0;
  std::uint64_t min_ = UINT64_MAX;  // While empty, so that the first value is smaller.
  std::uint64_t max_ = 0;
  Wide sum_ = 0;
};

}  // namespace yonder
