#pragma once
// MethodMetrics: what a server counts of one method.
//
//   yonder_rpc_calls_total{method}    requests that arrived
//   yonder_rpc_errors_total{method}   those of them that were answered with an error,
//                                     refused ones included
//   yonder_rpc_latency_seconds{method}  from the receive to the answer, of one request in
//                                     kSampling: reading the clock twice would cost the
//                                     shortest methods a tenth of their time
//
// Concurrency: from any thread, without locked instructions (telemetry/counters.h).
// Lifetime: the registry outlives it.

#include <cstdint>
#include <string>

#include "yonder/base/result.h"
#include "yonder/telemetry/counters.h"

namespace yonder::rpc {

struct MethodMetrics {
  // A prime, so that clients that repeat a pattern of requests do not keep to its phase.
  static constexpr std::uint32_t kSampling = 61;

  telemetry::Counter calls;
  telemetry::Counter errors;
  telemetry::HistogramMetric latency;

  // Errors of Registry.
  static Result<MethodMetrics> create(telemetry::Registry& registry, const std::string& method);
};

}  // namespace yonder::rpc
