#pragma once
// What /metrics of rcached shows.
//
// Concurrency: any thread.

#include <vector>

#include "yonder/cache/server.h"
#include "yonder/cache/service.h"
#include "yonder/telemetry/counters.h"

namespace yonder::apps {

std::vector<telemetry::MetricValue> metrics_of(cache::Service& service, const cache::Server& server);

}  // namespace yonder::apps
