#include "yonder/rpc/internal/method_metrics.h"

namespace yonder::rpc {

Result<MethodMetrics> MethodMetrics::create(telemetry::Registry& registry, const std::string& method) {
  const std::vector<telemetry::Label> labels{{"method", method}};
  YONDER_TRY(calls,
             registry.counter(
                 {.name = "yonder_rpc_calls_total", .help = "Requests that arrived.", .labels = labels}));
  YONDER_TRY(errors, registry.counter({.name = "yonder_rpc_errors_total",
                                       .help = "Requests that were answered with an error.",
                                       .labels = labels}));
  YONDER_TRY(latency,
             registry.histogram({.name = "yonder_rpc_latency_seconds",
                                 .help = "Time from a request to its answer, of a sample of the requests.",
                                 .labels = labels,
                                 .unit = telemetry::Unit::kSeconds}));
  return MethodMetrics{.calls = calls, .errors = errors, .latency = latency};
}

}  // namespace yonder::rpc
