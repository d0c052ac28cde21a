#pragma once
// A histogram as people and programs read it: a table, a bar chart, JSON.
//
// Separate from histogram.h because whoever records does not print.
//
// Concurrency: pure functions; the histogram must not be recorded into meanwhile.

#include <span>
#include <string>
#include <string_view>

#include "yonder/base/histogram.h"

namespace yonder {

// What the recorded numbers count, and so how a value is written.
enum class HistogramUnit { kCount, kNanoseconds, kBytes };

struct HistogramRow {
  std::string_view name;
  const Histogram& histogram;
};

// One line per histogram under a header line:
//   name          count      p50      p90      p99    p99.9   p99.99      max     mean
std::string render_table(std::span<const HistogramRow> rows, HistogramUnit unit);

struct HistogramBarOptions {
  HistogramUnit unit = HistogramUnit::kNanoseconds;
  int rows = 12;     // At most this many lines; at least 1.
  int columns = 72;  // Of the terminal; at least 40.
};

// A bar chart, one line per range of values. Ranges grow geometrically from the
// minimum to p99.9, so that a rare outlier does not flatten the rest; the last
// line takes all above. "(nothing recorded)" if empty.
std::string render_bars(const Histogram& histogram, const HistogramBarOptions& options = {});

// One object: count, min, mean, stddev, p50, p90, p99, p99.9, p99.99, max, clamped.
// The numbers are the recorded ones; the unit is for the key that holds the object.
std::string to_json(const Histogram& histogram);

}  // namespace yonder
