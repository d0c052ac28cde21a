#include "apps/yonderd/admin.h"

#include <httplib.h>

#include <nlohmann/json.hpp>

namespace yonder::apps {

using Json = nlohmann::json;

namespace {

Json blocks_of(node::Server& node) {
  const node::NodeStats stats = node.stats();
  std::uint64_t live = 0;
  for (const node::ClassStats& size_class : stats.heap.classes) live += size_class.live;
  return {{"blocks", stats.heap.blocks},
          {"live_objects", live},
          {"kept", stats.kept},
          {"active_bytes", stats.heap.active_bytes},
          {"retired_bytes", stats.heap.retired_bytes},
          {"limit_bytes", node.heap().frames().limit_bytes()},
          {"corrections", stats.heap.corrections},
          {"connections", stats.connections},
          {"requests", stats.requests}};
}

Json classes_of(node::Server& node) {
  Json out = Json::array();
  const node::HeapStats stats = node.heap().stats();
  for (std::size_t i = 0; i < stats.classes.size(); ++i) {
    const node::ClassStats& one = stats.classes[i];
    if (one.frames == 0 && one.allocated == 0) continue;
    const bool spans = i + 1 == stats.classes.size();
    out.push_back({{"class", spans ? Json("spans") : Json(i)},
                   {"slot_bytes", one.slot_bytes},
                   {"live", one.live},
                   {"allocated", one.allocated},
                   {"freed", one.freed},
                   {"frames", one.frames},
                   {"slots", one.slots},
                   {"frame_bytes", one.frame_bytes},
                   {"fragmentation", one.fragmentation()}});
  }
  return out;
}

Json extents_of(node::Server& node) {
  Json out = Json::array();
  for (const node::ExtentInfo& extent : node.extents().list()) {
    out.push_back({{"tenant", extent.tenant.value()}, {"name", extent.name}, {"bytes", extent.bytes}});
  }
  return out;
}

Json compaction_of(node::Server& node) {
  const node::CompactionPolicy policy = node.compaction_policy();
  const node::CompactionCounters counters = node.heap().compactor().counters();
  Json due = Json::array();
  for (std::size_t i = 0; i < node.heap().classes().count(); ++i) {
    const auto estimate = node.heap().compactor().dry_run(static_cast<std::uint8_t>(i));
    if (estimate.frames_freed == 0) continue;
    due.push_back({{"class", i},
                   {"frames", estimate.frames},
                   {"frames_freed", estimate.frames_freed},
                   {"bytes_freed", estimate.bytes_freed},
                   {"objects_moved", estimate.objects_moved}});
  }
  return {{"policy",
           {{"automatic", policy.automatic},
            {"threshold", policy.threshold},
            {"min_waste_bytes", policy.min_waste_bytes},
            {"slice_blocks", policy.slice.blocks},
            {"slice_ns", policy.slice.time.count()},
            {"pause_ns", policy.pause.count()},
            {"interval_ns", policy.interval.count()}}},
          {"counters",
           {{"runs", counters.runs},
            {"slices", counters.slices},
            {"blocks_moved", counters.blocks_moved},
            {"switches_refused", counters.switches_refused},
            {"objects_moved", counters.objects_moved},
            {"bytes_moved", counters.bytes_moved},
            {"frames_freed", counters.frames_freed},
            {"bytes_freed", counters.bytes_freed},
            {"collection_ns", counters.collection_ns},
            {"longest_collection_ns", counters.longest_collection_ns},
            {"moving_ns", counters.moving_ns},
            {"longest_slice_ns", counters.longest_slice_ns}}},
          {"would_free", due}};
}

}  // namespace

Result<std::unique_ptr<AdminEndpoint>> open_node_admin(const std::string& place, node::Server& node,
                                                       telemetry::Registry& registry) {
  auto endpoint = std::make_unique<AdminEndpoint>([&registry] { return registry.snapshot(); });
  httplib::Server& http = endpoint->http();
  const auto show = [&](const char* path, Json (*describe)(node::Server&)) {
    http.Get(path, [&node, describe](const httplib::Request&, httplib::Response& response) {
      answer_json(response, describe(node));
    });
  };
  show("/api/v1/blocks", blocks_of);
  show("/api/v1/classes", classes_of);
  show("/api/v1/extents", extents_of);
  show("/api/v1/compaction", compaction_of);
  http.Post("/api/v1/compaction", [&node](const httplib::Request&, httplib::Response& response) {
    answer_json(response, Json{{"bytes_freed", node.compact()}});
  });
  YONDER_TRY_VOID(endpoint->listen(place));
  return endpoint;
}

}  // namespace yonder::apps
