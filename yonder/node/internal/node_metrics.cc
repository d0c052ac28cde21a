#include "yonder/node/internal/node_metrics.h"

namespace yonder::node::internal {

using telemetry::Unit;

Result<NodeMetrics> NodeMetrics::create(telemetry::Registry& registry) {
  const auto operations = [&](const char* name) {
    return registry.counter({.name = "yonder_node_operations_total",
                             .help = "Operations on objects that were executed for clients.",
                             .labels = {{"operation", name}}});
  };
  const auto gauge = [&](const char* name, const char* help, Unit unit = Unit::kNone) {
    return registry.gauge({.name = name, .help = help, .unit = unit});
  };
  YONDER_TRY(alloc, operations("alloc"));
  YONDER_TRY(free, operations("free"));
  YONDER_TRY(read, operations("read"));
  YONDER_TRY(write, operations("write"));
  YONDER_TRY(find, operations("find"));
  YONDER_TRY(release, operations("release"));
  YONDER_TRY(failed, registry.counter({.name = "yonder_node_operations_failed_total",
                                       .help = "Operations on objects that were answered with an error."}));
  YONDER_TRY(read_bytes, registry.counter({.name = "yonder_node_read_bytes_total",
                                           .help = "Bytes of objects read through requests.",
                                           .unit = Unit::kBytes}));
  YONDER_TRY(written_bytes, registry.counter({.name = "yonder_node_written_bytes_total",
                                              .help = "Bytes of objects written.",
                                              .unit = Unit::kBytes}));
  YONDER_TRY(active,
             gauge("yonder_node_active_bytes", "Memory in frames, retired ones included.", Unit::kBytes));
  YONDER_TRY(retired, gauge("yonder_node_retired_bytes", "Memory in frames that wait for slow readers.",
                            Unit::kBytes));
  YONDER_TRY(live, gauge("yonder_node_live_objects", "Objects that exist."));
  YONDER_TRY(blocks, gauge("yonder_node_blocks", "Block ids in use."));
  YONDER_TRY(connections, gauge("yonder_node_connections", "Clients that are connected."));
  YONDER_TRY(extents, gauge("yonder_node_extent_bytes", "Bytes of all extents.", Unit::kBytes));
  YONDER_TRY(staged, gauge("yonder_node_staged_bytes", "Bytes of large objects on their way.", Unit::kBytes));
  YONDER_TRY(waiting, gauge("yonder_node_waiting_allocations", "Allocations that wait for memory."));
  YONDER_TRY(runs, gauge("yonder_node_compaction_runs", "Compaction runs so far."));
  YONDER_TRY(slices, gauge("yonder_node_compaction_slices", "Compaction slices so far."));
  YONDER_TRY(objects, gauge("yonder_node_compaction_objects_moved", "Objects moved by compaction so far."));
  YONDER_TRY(freed,
             gauge("yonder_node_compaction_freed_bytes", "Memory freed by compaction so far.", Unit::kBytes));
  YONDER_TRY(corrections,
             gauge("yonder_node_corrections", "Operations so far that found their object elsewhere."));
  const auto questions = [&](const char* answered) {
    return registry.gauge({.name = "yonder_node_owner_questions",
                           .help = "Questions so far to the owners of blocks, by who answered them.",
                           .labels = {{"answered_by", answered}}});
  };
  YONDER_TRY(of_others, questions("other"));
  YONDER_TRY(of_itself, questions("asker"));
  YONDER_TRY(in_vain, questions("nobody"));
  return NodeMetrics{.alloc = alloc,
                     .free = free,
                     .read = read,
                     .write = write,
                     .find = find,
                     .release = release,
                     .failed = failed,
                     .read_bytes = read_bytes,
                     .written_bytes = written_bytes,
                     .active_bytes = active,
                     .retired_bytes = retired,
                     .live_objects = live,
                     .blocks = blocks,
                     .connections = connections,
                     .staged_bytes = staged,
                     .waiting = waiting,
                     .extent_bytes = extents,
                     .compaction_runs = runs,
                     .compaction_slices = slices,
                     .compaction_objects = objects,
                     .compaction_freed_bytes = freed,
                     .corrections = corrections,
                     .asked_of_others = of_others,
                     .asked_of_itself = of_itself,
                     .asked_in_vain = in_vain};
}

}  // namespace yonder::node::internal
