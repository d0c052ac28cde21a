#include "yonder/base/histogram_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "yonder/base/check.h"
#include "yonder/base/units.h"

namespace yonder {
namespace {

struct NamedPercentile {
  const char* name;
  double percent;
};
constexpr NamedPercentile kPercentiles[] = {
    {"p50", 50}, {"p90", 90}, {"p99", 99}, {"p99.9", 99.9}, {"p99.99", 99.99}};

std::string value_string(double value, HistogramUnit unit) {
  switch (unit) {
    case HistogramUnit::kNanoseconds:
      return to_string(Duration(static_cast<std::int64_t>(std::llround(value))));
    case HistogramUnit::kBytes:
      return to_string(Bytes(static_cast<std::uint64_t>(value)));
    case HistogramUnit::kCount:
      break;
  }
  return count_string(value);
}

constexpr int kNameColumns = 22;
constexpr int kValueColumns = 9;

// The upper ends of the lines of a bar chart.
std::vector<std::uint64_t> line_ends(const Histogram& histogram, int rows) {
  const double first = static_cast<double>(std::max<std::uint64_t>(histogram.min(), 1));
  const double last = static_cast<double>(std::max<std::uint64_t>(histogram.percentile(99.9), 1));
  std::vector<std::uint64_t> ends;
  for (int row = 1; row < rows; ++row) {
    const double end = first * std::pow(last / first, static_cast<double>(row) / std::max(rows - 1, 1));
    const auto rounded = static_cast<std::uint64_t>(std::ceil(end));
    if (ends.empty() || rounded > ends.back()) ends.push_back(rounded);
  }
  if (ends.empty() || ends.back() < histogram.max()) ends.push_back(histogram.max());
  return ends;
}

// How many values each line holds. A bucket belongs to the first line that reaches
// its upper end, so a bucket is never cut in two.
std::vector<std::uint64_t> line_counts(const Histogram& histogram, std::span<const std::uint64_t> ends) {
  std::vector<std::uint64_t> counts(ends.size());
  histogram.for_each([&](const Histogram::Bucket& bucket) {
    const auto line = std::ranges::lower_bound(ends, std::min(bucket.high, histogram.max()));
    counts[static_cast<std::size_t>(line - ends.begin())] += bucket.count;
  });
  return counts;
}

// A bar of `width` cells for `share` of the longest, in eighths of a cell.
std::string bar(double share, int width) {
  static constexpr std::array<const char*, 8> kEighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  int eighths = static_cast<int>(std::lround(share * width * 8));
  if (share > 0) eighths = std::max(eighths, 1);  // What is there is seen.
  std::string cells;
  for (int i = 0; i < eighths / 8; ++i) cells += "█";
  return cells + kEighths[static_cast<std::size_t>(eighths % 8)];
}

}  // namespace

std::string render_table(std::span<const HistogramRow> rows, HistogramUnit unit) {
  fmt::memory_buffer out;
  const auto end = std::back_inserter(out);
  fmt::format_to(end, "{:<{}}{:>{}}", "", kNameColumns, "count", kValueColumns);
  for (const auto& [name, percent] : kPercentiles) fmt::format_to(end, "{:>{}}", name, kValueColumns);
  fmt::format_to(end, "{:>{}}{:>{}}\n", "max", kValueColumns, "mean", kValueColumns);
  for (const auto& [name, histogram] : rows) {
    const auto cell = [&](double value) {
      fmt::format_to(end, "{:>{}}", value_string(value, unit), kValueColumns);
    };
    fmt::format_to(end, "{:<{}}{:>{}}", name, kNameColumns,
                   count_string(static_cast<double>(histogram.count())), kValueColumns);
    for (const auto& p : kPercentiles) cell(static_cast<double>(histogram.percentile(p.percent)));
    cell(static_cast<double>(histogram.max()));
    cell(histogram.mean());
    out.push_back('\n');
  }
  return fmt::to_string(out);
}

std::string render_bars(const Histogram& histogram, const HistogramBarOptions& options) {
  YONDER_CHECK(options.rows >= 1 && options.columns >= 40, "a chart needs room");
  if (histogram.count() == 0) return "(nothing recorded)\n";
  const std::vector<std::uint64_t> ends = line_ends(histogram, options.rows);
  const std::vector<std::uint64_t> counts = line_counts(histogram, ends);
  const auto longest = static_cast<double>(std::ranges::max(counts));
  const auto total = static_cast<double>(histogram.count());
  // "<= 123 us  12.34 %  " is what stands before the bar.
  const int width = options.columns - 24;
  std::string out;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const auto count = static_cast<double>(counts[i]);
    out += fmt::format("<= {:>9}  {:>6.2f} %  {}\n", value_string(static_cast<double>(ends[i]), options.unit),
                       100 * count / total, bar(count / longest, width));
  }
  return out;
}

std::string to_json(const Histogram& histogram) {
  nlohmann::ordered_json json;
  json["count"] = histogram.count();
  json["min"] = histogram.min();
  json["mean"] = histogram.mean();
  json["stddev"] = histogram.stddev();
  for (const auto& [name, percent] : kPercentiles) json[name] = histogram.percentile(percent);
  json["max"] = histogram.max();
  json["clamped"] = histogram.clamped();
  return json.dump();
}

}  // namespace yonder
