#include "yonder/telemetry/prometheus.h"

#include <fmt/format.h>

#include <iterator>

namespace yonder::telemetry {
namespace {

using Out = std::back_insert_iterator<std::string>;

struct PowerRange {
  unsigned first;
  unsigned last;
};

// The "le" bounds are 2^first to 2^last of the recorded integer.
PowerRange power_range(Unit unit) {
  switch (unit) {
    case Unit::kSeconds:
      return {.first = 7, .last = 35};  // 128 ns to 34 s
    case Unit::kBytes:
      return {.first = 4, .last = 32};  // 16 B to 4 GiB
    case Unit::kNone:
      return {.first = 0, .last = 24};  // 1 to 16 Mi
  }
  return {.first = 0, .last = 24};
}

std::string_view type_name(MetricType type) {
  switch (type) {
    case MetricType::kCounter:
      return "counter";
    case MetricType::kGauge:
      return "gauge";
    case MetricType::kHistogram:
      return "histogram";
  }
  return "untyped";
}

// Seconds are kept as whole nanoseconds; all other values are shown as they are.
template <typename Integer>
std::string number(Integer value, Unit unit) {
  if (unit == Unit::kSeconds) return fmt::format("{}", static_cast<double>(value) / 1e9);
  return fmt::format("{}", value);
}

std::string escaped(std::string_view text, bool quotes) {
  std::string out;
  for (const char c : text) {
    if (c == '\\')
      out += "\\\\";
    else if (c == '\n')
      out += "\\n";
    else if (c == '"' && quotes)
      out += "\\\"";
    else
      out += c;
  }
  return out;
}

// {a="1",le="2"}; nothing if there are no labels and no `le`.
std::string label_text(const std::vector<Label>& labels, std::string_view le = {}) {
  std::string out;
  const auto append = [&](std::string_view name, std::string_view value) {
    fmt::format_to(Out(out), "{}{}=\"{}\"", out.empty() ? "{" : ",", name, escaped(value, true));
  };
  for (const Label& label : labels) append(label.name, label.value);
  if (!le.empty()) append("le", le);
  return out.empty() ? out : out + "}";
}

void write_histogram(std::string& out, const MetricValue& metric) {
  const PowerRange range = power_range(metric.unit);
  std::uint64_t cumulative = 0;
  std::size_t next = 0;
  for (unsigned power = range.first; power <= range.last; ++power) {
    const std::uint64_t bound = std::uint64_t{1} << power;
    for (; next < metric.buckets.size() && histogram_upper(next) <= bound; ++next)
      cumulative += metric.buckets[next];
    fmt::format_to(Out(out), "{}_bucket{} {}\n", metric.name,
                   label_text(metric.labels, number(bound, metric.unit)), cumulative);
  }
  for (; next < metric.buckets.size(); ++next) cumulative += metric.buckets[next];
  fmt::format_to(Out(out), "{}_bucket{} {}\n", metric.name, label_text(metric.labels, "+Inf"), cumulative);
  const std::string labels = label_text(metric.labels);
  fmt::format_to(Out(out), "{}_sum{} {}\n", metric.name, labels, number(metric.sum, metric.unit));
  fmt::format_to(Out(out), "{}_count{} {}\n", metric.name, labels, cumulative);
}

void write_value(std::string& out, const MetricValue& metric) {
  if (metric.type == MetricType::kHistogram) return write_histogram(out, metric);
  const std::string value = metric.type == MetricType::kCounter ? number(metric.counter, metric.unit)
                                                                : number(metric.gauge, metric.unit);
  fmt::format_to(Out(out), "{}{} {}\n", metric.name, label_text(metric.labels), value);
}

}  // namespace

std::string to_prometheus(std::span<const MetricValue> metrics) {
  std::string out;
  std::string_view family;
  for (const MetricValue& metric : metrics) {
    if (metric.name != family) {
      family = metric.name;
      fmt::format_to(Out(out), "# HELP {} {}\n# TYPE {} {}\n", family, escaped(metric.help, false), family,
                     type_name(metric.type));
    }
    write_value(out, metric);
  }
  return out;
}

}  // namespace yonder::telemetry
