#pragma once
// The text that a Prometheus server scrapes: exposition format 0.0.4.
//
// Histograms are shown with one bucket per power of two of their unit's useful
// range, always the same ones, cumulative, with +Inf, _sum and _count.
//
// Concurrency and lifetime: pure functions over a snapshot.

#include <span>
#include <string>
#include <string_view>

#include "yonder/telemetry/counters.h"

namespace yonder::telemetry {

// The Content-Type to serve it with.
inline constexpr std::string_view kPrometheusContentType = "text/plain; version=0.0.4; charset=utf-8";

// Requires metrics of one name to stand together, as Registry::snapshot() gives them.
std::string to_prometheus(std::span<const MetricValue> metrics);

}  // namespace yonder::telemetry
