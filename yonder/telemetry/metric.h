#pragma once
// What a metric is called and what it measures.
//
// Names follow Prometheus' advice and are checked when a metric is registered,
// so that a dashboard can rely on them:
//   - lower case, digits and "_", beginning with "yonder_";
//   - base units only: "_seconds" and "_bytes", never "_ms" or "_kib";
//   - "_total" ends the names of counters and of nothing else;
//   - the unit is the last word (before "_total") if the metric has one.
//
// Concurrency and lifetime: values.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "yonder/base/result.h"

namespace yonder::telemetry {

enum class MetricType : std::uint8_t { kCounter, kGauge, kHistogram };

enum class Unit : std::uint8_t {
  kNone,
  kSeconds,  // Recorded as integer nanoseconds, shown as seconds.
  kBytes,
};

struct Label {
  std::string name;
  std::string value;
  friend bool operator==(const Label&, const Label&) = default;
};

struct MetricOptions {
  std::string name;
  std::string help;           // One sentence.
  std::vector<Label> labels;  // Few, and of few values: each combination is a metric.
  Unit unit = Unit::kNone;
};

inline constexpr std::size_t kMaxNameBytes = 128;
inline constexpr std::size_t kMaxHelpBytes = 512;
inline constexpr std::size_t kMaxLabels = 8;
inline constexpr std::size_t kMaxLabelValueBytes = 256;

// Errors: kInvalidArgument, with a message that names the rule.
Result<void> validate(const MetricOptions& options, MetricType type);

}  // namespace yonder::telemetry
