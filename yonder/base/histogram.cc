#include "yonder/base/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "yonder/base/check.h"

namespace yonder {
namespace {

// The smallest b with 2^-b <= 10^-digits.
int bits_for(int digits) {
  constexpr int kBits[] = {4, 7, 10, 14};  // 1/16, 1/128, 1/1024, 1/16384.
  YONDER_CHECK(digits >= 1 && digits <= 4, "a histogram has 1 to 4 significant digits");
  return kBits[digits - 1];
}

}  // namespace

Histogram::Histogram(const HistogramOptions& options)
    : options_(options), bits_(bits_for(options.significant_digits)) {
  YONDER_CHECK(options.max_value >= 1, "a histogram needs a range");
  counts_.resize(index_of(options.max_value) + 1);
}

std::size_t Histogram::index_of(std::uint64_t value) const {
  // bit_width of a value below 2^(b+1) is at most b+1: no shift, the exact part.
  const int shift = std::max(static_cast<int>(std::bit_width(value)) - bits_ - 1, 0);
  return (static_cast<std::size_t>(shift) << bits_) + (value >> shift);
}

std::uint64_t Histogram::low_of(std::size_t index) const {
  const std::size_t octave = index >> bits_;
  if (octave <= 1) return index;
  const std::size_t shift = octave - 1;
  return static_cast<std::uint64_t>(index - (shift << bits_)) << shift;
}

std::uint64_t Histogram::high_of(std::size_t index) const {
  const std::size_t octave = index >> bits_;
  const std::size_t shift = octave <= 1 ? 0 : octave - 1;
  return low_of(index) + ((std::uint64_t{1} << shift) - 1);
}

void Histogram::add(std::size_t index, std::uint64_t times, Wide sum, std::uint64_t low, std::uint64_t high) {
  counts_[index] += times;
  count_ += times;
  sum_ += sum;
  min_ = std::min(min_, low);
  max_ = std::max(max_, high);
}

void Histogram::record_n(std::uint64_t value, std::uint64_t times) {
  if (times == 0) return;
  if (value > options_.max_value) [[unlikely]] {
    clamped_ += times;
    value = options_.max_value;
  }
  add(index_of(value), times, Wide{value} * times, value, value);
}

void Histogram::record_corrected(std::uint64_t value, std::uint64_t expected_interval) {
  record(value);
  if (expected_interval == 0 || value / expected_interval < 2) return;
  std::uint64_t hidden = value / expected_interval - 1;  // How many values are still to come,
  std::uint64_t largest = value - expected_interval;     // and the largest of them.
  if (largest > options_.max_value) {
    const std::uint64_t too_large =
        std::min((largest - options_.max_value - 1) / expected_interval + 1, hidden);
    record_n(options_.max_value + 1, too_large);
    hidden -= too_large;
    largest -= too_large * expected_interval;
  }
  while (hidden > 0) {
    // All of the arithmetic series that falls into this bucket, at once.
    const std::size_t index = index_of(largest);
    const std::uint64_t here = std::min((largest - low_of(index)) / expected_interval + 1, hidden);
    const std::uint64_t smallest = largest - (here - 1) * expected_interval;
    add(index, here, (Wide{largest} + smallest) * here / 2, smallest, largest);
    hidden -= here;
    largest = hidden > 0 ? smallest - expected_interval : 0;
  }
}

void Histogram::merge(const Histogram& other) {
  YONDER_CHECK(options_ == other.options_, "histograms of different shape cannot be merged");
  for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  clamped_ += other.clamped_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  sum_ += other.sum_;
}

void Histogram::reset() { *this = Histogram(options_); }

std::uint64_t Histogram::percentile(double percent) const {
  YONDER_CHECK(percent >= 0 && percent <= 100, "a percentile lies between 0 and 100");
  if (count_ == 0) return 0;
  // One step down, because 99.9 is stored as a little more than it says: of 1000
  // values it must choose the 999th.
  const double share = std::max(std::nextafter(percent, 0.0), 0.0) / 100;
  const auto rank = static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(count_)));
  const std::uint64_t wanted = std::clamp<std::uint64_t>(rank, 1, count_);
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    seen += counts_[i];
    if (seen >= wanted) return std::clamp(high_of(i), min_, max_);
  }
  return max_;
}

double Histogram::mean() const {
  return count_ == 0 ? 0 : static_cast<double>(sum_) / static_cast<double>(count_);
}

double Histogram::stddev() const {
  if (count_ == 0) return 0;
  const double centre = mean();
  double squares = 0;
  for_each([&](const Bucket& bucket) {
    const double middle = (static_cast<double>(bucket.low) + static_cast<double>(bucket.high)) / 2;
    squares += (middle - centre) * (middle - centre) * static_cast<double>(bucket.count);
  });
  return std::sqrt(squares / static_cast<double>(count_));
}

void Histogram::check_invariants() const {
  std::uint64_t total = 0;
  Wide low_sum = 0;
  Wide high_sum = 0;
  for_each([&](const Bucket& bucket) {
    total += bucket.count;
    low_sum += Wide{bucket.low} * bucket.count;
    high_sum += Wide{bucket.high} * bucket.count;
  });
  YONDER_CHECK(total == count_, "the buckets hold every value");
  YONDER_CHECK(sum_ >= low_sum && sum_ <= high_sum, "the sum agrees with the buckets");
  YONDER_CHECK(clamped_ <= count_, "a clamped value is also counted");
  YONDER_CHECK(max_ <= options_.max_value, "nothing lies above the limit");
  YONDER_CHECK(count_ == 0 || min_ <= max_, "the extremes are in order");
  YONDER_CHECK(count_ == 0 || (counts_[index_of(min_)] > 0 && counts_[index_of(max_)] > 0),
               "the extremes were recorded");
}

}  // namespace yonder
