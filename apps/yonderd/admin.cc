#include "apps/yonderd/admin.h"

#include <fmt/format.h>
#include <httplib.h>

#include <atomic>
#include <charconv>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "yonder/base/log.h"
#include "yonder/telemetry/prometheus.h"

namespace yonder::apps {

using Json = nlohmann::json;

struct Admin::State {
  State(node::Server& served, telemetry::Registry& metrics) : node(served), registry(metrics) {}

  node::Server& node;
  telemetry::Registry& registry;
  std::atomic<bool> stopping{false};
  std::string host;
  int port = 0;
  httplib::Server http;
  std::thread thread;
};

namespace {

struct Place {
  std::string host;
  int port = 0;
};

Result<Place> parse_place(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  Place place;
  if (colon == std::string::npos || colon == 0) return fail(ErrorCode::kAddressInvalid, "admin endpoint");
  place.host = text.substr(0, colon);
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, place.port);
  if (error != std::errc() || stop != end || place.port < 0 || place.port > 65535) {
    return fail(ErrorCode::kAddressInvalid, "port of the admin endpoint");
  }
  return place;
}

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

void answer(httplib::Response& response, const Json& json) {
  response.set_content(json.dump() + "\n", "application/json");
}

}  // namespace

Admin::Admin(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<Admin>> Admin::create(const std::string& place, node::Server& node,
                                             telemetry::Registry& registry) {
  YONDER_TRY(where, parse_place(place));
  auto state = std::make_unique<State>(node, registry);
  State& s = *state;
  s.host = where.host;
  httplib::Server& http = s.http;
  // A monitor or two at a time; a slow one must not keep a thread for long.
  http.new_task_queue = [] { return new httplib::ThreadPool(2); };
  http.set_read_timeout(std::chrono::seconds(5));
  http.set_write_timeout(std::chrono::seconds(5));
  http.set_payload_max_length(64 * 1024);
  http.Get("/metrics", [&s](const httplib::Request&, httplib::Response& response) {
    response.set_content(telemetry::to_prometheus(s.registry.snapshot()),
                         std::string(telemetry::kPrometheusContentType));
  });
  http.Get("/health", [&s](const httplib::Request&, httplib::Response& response) {
    const bool stopping = s.stopping.load(std::memory_order_relaxed);
    response.status = stopping ? 503 : 200;
    answer(response, {{"status", stopping ? "stopping" : "serving"}});
  });
  http.Get("/api/v1/blocks", [&s](const httplib::Request&, httplib::Response& response) {
    answer(response, blocks_of(s.node));
  });
  http.Get("/api/v1/classes", [&s](const httplib::Request&, httplib::Response& response) {
    answer(response, classes_of(s.node));
  });
  http.Get("/api/v1/extents", [&s](const httplib::Request&, httplib::Response& response) {
    answer(response, extents_of(s.node));
  });
  http.Get("/api/v1/compaction", [&s](const httplib::Request&, httplib::Response& response) {
    answer(response, compaction_of(s.node));
  });
  http.Post("/api/v1/compaction", [&s](const httplib::Request&, httplib::Response& response) {
    answer(response, {{"bytes_freed", s.node.compact()}});
  });
  s.port = where.port == 0 ? http.bind_to_any_port(where.host) : where.port;
  const bool bound = where.port == 0 ? s.port > 0 : http.bind_to_port(where.host, where.port);
  if (!bound) return fail(ErrorCode::kAlreadyExists, "listen for the admin endpoint", where.port);
  s.thread = std::thread([&s] { s.http.listen_after_bind(); });
  return std::unique_ptr<Admin>(new Admin(std::move(state)));
}

Admin::~Admin() {
  state_->http.stop();
  state_->thread.join();
}

std::string Admin::address() const { return fmt::format("http://{}:{}", state_->host, state_->port); }

void Admin::begin_stop() { state_->stopping.store(true, std::memory_order_relaxed); }

}  // namespace yonder::apps
