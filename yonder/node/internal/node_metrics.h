#pragma once
// What a node counts: the names of docs/node.md, "Metrics".
//
// Concurrency: handles of telemetry/counters.h, from any thread.
// Lifetime: the registry outlives it.

#include <cstdint>
#include <string>

#include "yonder/base/result.h"
#include "yonder/node/compactor.h"
#include "yonder/node/heap.h"
#include "yonder/telemetry/counters.h"

namespace yonder::node::internal {

struct NodeMetrics {
  telemetry::Counter alloc;
  telemetry::Counter free;
  telemetry::Counter read;
  telemetry::Counter write;
  telemetry::Counter find;
  telemetry::Counter release;
  telemetry::Counter failed;
  telemetry::Counter read_bytes;
  telemetry::Counter written_bytes;
  telemetry::Gauge active_bytes;
  telemetry::Gauge retired_bytes;
  telemetry::Gauge live_objects;
  telemetry::Gauge blocks;
  telemetry::Gauge connections;
  telemetry::Gauge staged_bytes;
  telemetry::Gauge waiting;
  telemetry::Gauge extent_bytes;
  telemetry::Gauge compaction_runs;
  telemetry::Gauge compaction_slices;
  telemetry::Gauge compaction_objects;
  telemetry::Gauge compaction_freed_bytes;
  telemetry::Gauge corrections;
  // Correction::kOwner: questions by who answered them.
  telemetry::Gauge asked_of_others;
  telemetry::Gauge asked_of_itself;
  telemetry::Gauge asked_in_vain;

  // Errors of Registry.
  static Result<NodeMetrics> create(telemetry::Registry& registry);
};

}  // namespace yonder::node::internal
