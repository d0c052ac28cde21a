#include "apps/rcached/admin.h"

#include <fmt/format.h>
#include <httplib.h>

#include <array>
#include <atomic>
#include <charconv>
#include <thread>
#include <utility>

#include "yonder/cache/counters.h"
#include "yonder/os/address.h"
#include "yonder/os/steady_clock.h"
#include "yonder/telemetry/counters.h"
#include "yonder/telemetry/prometheus.h"

namespace yonder::apps {

struct CacheAdmin::State {
  State(cache::Service& served, cache::Server& serving) : service(served), server(serving) {}

  cache::Service& service;
  cache::Server& server;
  std::atomic<bool> stopping{false};
  std::string host;
  int port = 0;
  httplib::Server http;
  std::thread thread;
};

namespace {

using telemetry::MetricType;
using telemetry::MetricValue;
using telemetry::Unit;

struct Shown {
  const char* name;
  const char* help;
  cache::Count count;
  Unit unit = Unit::kNone;
};
constexpr std::array kShown = {
    Shown{"yonder_cache_gets_total", "Keys that were asked for.", cache::Count::kCmdGet},
    Shown{"yonder_cache_hits_total", "Of these, found.", cache::Count::kGetHits},
    Shown{"yonder_cache_sets_total", "Values that were stored, or tried.", cache::Count::kCmdSet},
    Shown{"yonder_cache_forwarded_total", "Commands sent on to the owner of their key.",
          cache::Count::kForwarded},
    Shown{"yonder_cache_slow_readers_total", "Times a client was not read because it took no replies.",
          cache::Count::kSlowReaders},
    Shown{"yonder_cache_read_bytes_total", "Received from clients.", cache::Count::kBytesRead, Unit::kBytes},
    Shown{"yonder_cache_written_bytes_total", "Sent to clients.", cache::Count::kBytesWritten, Unit::kBytes},
};

MetricValue counter(const char* name, const char* help, Unit unit, std::uint64_t value) {
  MetricValue out{.name = name, .help = help, .labels = {}, .type = MetricType::kCounter, .unit = unit};
  out.counter = value;
  return out;
}

MetricValue gauge(const char* name, const char* help, Unit unit, std::uint64_t value) {
  MetricValue out{.name = name, .help = help, .labels = {}, .type = MetricType::kGauge, .unit = unit};
  out.gauge = static_cast<std::int64_t>(value);
  return out;
}

std::vector<MetricValue> metrics_of(cache::Service& service, const cache::Server& server) {
  std::vector<MetricValue> out;
  const cache::CounterValues values = service.counters();
  for (const Shown& shown : kShown) {
    out.push_back(counter(shown.name, shown.help, shown.unit, values[static_cast<std::size_t>(shown.count)]));
  }
  const cache::Server::Connections connections = server.connections();
  out.push_back(
      counter("yonder_cache_connections_total", "Clients that came.", Unit::kNone, connections.total));
  out.push_back(
      counter("yonder_cache_rejected_total", "Clients over the limit.", Unit::kNone, connections.rejected));
  out.push_back(
      gauge("yonder_cache_connections", "Clients that are there.", Unit::kNone, connections.current));
  std::uint64_t items = 0;
  std::uint64_t bytes = 0;
  std::uint64_t local = 0;
  for (std::size_t i = 0; i < service.store().partitions(); ++i) {
    if (!service.store().is_local(i)) continue;
    service.store().visit_partition(i, [&](cache::Partition& partition) {
      const cache::PartitionStats stats = partition.stats();
      ++local;
      items += stats.items;
      bytes += stats.heap_bytes;
    });
  }
  out.push_back(gauge("yonder_cache_items", "Items that are held.", Unit::kNone, items));
  out.push_back(gauge("yonder_cache_memory_bytes", "Memory of items and their index.", Unit::kBytes, bytes));
  out.push_back(gauge("yonder_cache_memory_limit_bytes", "Most memory they may take.", Unit::kBytes,
                      service.store().budget().limit()));
  out.push_back(gauge("yonder_cache_local_partitions", "Partitions that are here.", Unit::kNone, local));
  return out;
}

// ---------------------------------------------------------------- the cluster

constexpr Duration kMoveTimeout = std::chrono::seconds(30);
constexpr Duration kDrainTimeout = std::chrono::minutes(10);

void refuse(httplib::Response& response, const Error& error) {
  // 409: the request was understood, and the cluster's state does not allow it.
  response.status = error == ErrorCode::kNotFound ? 404 : 409;
  response.set_content(
      fmt::format("{{\"error\":\"{}\",\"text\":\"{}\"}}\n", error_name(error.code()), error.to_string()),
      "application/json");
}

void answer(httplib::Response& response, const Result<void>& done) {
  if (!done) return refuse(response, done.error());
  response.set_content("{\"done\":true}\n", "application/json");
}

void answer(httplib::Response& response, const Result<std::uint64_t>& job) {
  if (!job) return refuse(response, job.error());
  response.set_content(fmt::format("{{\"job\":{}}}\n", *job), "application/json");
}

const char* name_of(cache::OrderState state) {
  constexpr std::array kNames = {"queued", "running", "done", "failed", "cancelled"};
  return kNames[static_cast<std::size_t>(state)];
}

void answer(httplib::Response& response, const Result<std::vector<cache::Cluster::Job>>& jobs) {
  if (!jobs) return refuse(response, jobs.error());
  std::string out = "{\"jobs\":[";
  for (const cache::Cluster::Job& job : *jobs) {
    if (out.back() == '}') out += ',';
    out += fmt::format(
        "{{\"job\":{},\"partition\":{},\"from\":\"{}\",\"to\":\"{}\",\"state\":\"{}\",\"error\":\"{}\"}}",
        job.order.id, job.order.partition, job.from, job.to, name_of(job.order.state),
        job.order.error == ErrorCode::kOk ? "" : error_name(job.order.error));
  }
  response.set_content(out + "]}\n", "application/json");
}

std::string describe(const cache::Cluster& cluster) {
  std::string out = "{\"partitions\":[";
  for (const cache::PartitionPlace& place : cluster.map()) {
    if (place.partition > 0) out += ',';
    out += fmt::format("{{\"partition\":{},\"server\":\"{}\",\"epoch\":{}}}", place.partition, place.server,
                       place.epoch.value());
  }
  out += "],\"moving\":[";
  bool first = true;
  for (const cache::Cluster::Moving& moving : cluster.moving()) {
    if (!std::exchange(first, false)) out += ',';
    out += fmt::format("{{\"partition\":{},\"direction\":\"{}\",\"bytes_left\":{}}}", moving.partition,
                       moving.arriving ? "in" : "out", moving.bytes_left);
  }
  return out + "]}\n";
}

// Until the owner has made the move, or could not.
Result<void> wait_for(cache::Cluster& cluster, std::uint64_t job) {
  const os::SteadyClock clock;
  const Deadline deadline = Deadline::after(clock, kMoveTimeout);
  while (!deadline.passed(clock.now())) {
    YONDER_TRY(jobs, cluster.jobs());
    for (const cache::Cluster::Job& listed : jobs) {
      if (listed.order.id != job) continue;
      if (listed.order.state == cache::OrderState::kDone) return {};
      if (listed.order.state == cache::OrderState::kFailed)
        return fail(listed.order.error, "move a partition");
      if (listed.order.state == cache::OrderState::kCancelled)
        return fail(ErrorCode::kCancelled, "move a partition");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return fail(ErrorCode::kDeadlineExceeded, "move a partition");
}

void migrate(cache::Cluster& cluster, const httplib::Request& request, httplib::Response& response) {
  const std::string number = request.get_param_value("partition");
  std::uint32_t partition = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), partition);
  const std::string to = request.get_param_value("to");
  if (error != std::errc() || end != number.data() + number.size() || to.empty()) {
    response.status = 400;
    response.set_content("{\"error\":\"give partition=NUMBER and to=HOST:PORT\"}\n", "application/json");
    return;
  }
  const Result<std::uint64_t> job = cluster.order(partition, to);
  if (!job || request.get_param_value("wait") == "0") return answer(response, job);
  answer(response, wait_for(cluster, *job));
}

// The number between two parts of a path, as /api/v1/jobs/7/cancel has.
std::uint64_t job_of(const httplib::Request& request) {
  std::uint64_t job = 0;
  const std::string text = request.matches[1];
  std::from_chars(text.data(), text.data() + text.size(), job);
  return job;
}

void serve_cluster(httplib::Server& http, cache::Cluster& cluster) {
  http.Get("/api/v1/partitions", [&cluster](const httplib::Request&, httplib::Response& response) {
    response.set_content(describe(cluster), "application/json");
  });
  http.Post("/api/v1/migrate", [&cluster](const httplib::Request& request, httplib::Response& response) {
    migrate(cluster, request, response);
  });
  http.Get("/api/v1/jobs", [&cluster](const httplib::Request&, httplib::Response& response) {
    answer(response, cluster.jobs());
  });
  http.Post(R"(/api/v1/jobs/(\d+)/cancel)",
            [&cluster](const httplib::Request& request, httplib::Response& response) {
              answer(response, cluster.cancel(job_of(request)));
            });
  http.Post(R"(/api/v1/jobs/(\d+)/rollback)",
            [&cluster](const httplib::Request& request, httplib::Response& response) {
              answer(response, cluster.roll_back(job_of(request)));
            });
  http.Post("/api/v1/pause", [&cluster](const httplib::Request&, httplib::Response& response) {
    answer(response, cluster.pause(true));
  });
  http.Post("/api/v1/resume", [&cluster](const httplib::Request&, httplib::Response& response) {
    answer(response, cluster.pause(false));
  });
  http.Get("/api/v1/rebalance", [&cluster](const httplib::Request&, httplib::Response& response) {
    answer(response, cluster.rebalance(false));
  });
  http.Post("/api/v1/rebalance", [&cluster](const httplib::Request&, httplib::Response& response) {
    answer(response, cluster.rebalance(true));
  });
  http.Post("/api/v1/drain", [&cluster](const httplib::Request&, httplib::Response& response) {
    answer(response, cluster.drain(Deadline::after(os::SteadyClock(), kDrainTimeout)));
  });
}

}  // namespace

CacheAdmin::CacheAdmin(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<CacheAdmin>> CacheAdmin::create(const std::string& place, cache::Service& service,
                                                       cache::Server& server, cache::Cluster* cluster) {
  YONDER_TRY(where, os::parse_host_port(place));
  auto state = std::make_unique<State>(service, server);
  State& s = *state;
  s.host = std::string(where.host);
  httplib::Server& http = s.http;
  // A monitor or two at a time; a slow one must not keep a thread for long.
  http.new_task_queue = [] { return new httplib::ThreadPool(2); };
  http.set_read_timeout(std::chrono::seconds(5));
  http.set_write_timeout(std::chrono::seconds(5));
  http.set_payload_max_length(64 * 1024);
  http.Get("/metrics", [&s](const httplib::Request&, httplib::Response& response) {
    response.set_content(telemetry::to_prometheus(metrics_of(s.service, s.server)),
                         std::string(telemetry::kPrometheusContentType));
  });
  http.Get("/health", [&s](const httplib::Request&, httplib::Response& response) {
    const bool stopping = s.stopping.load(std::memory_order_relaxed);
    response.status = stopping ? 503 : 200;
    response.set_content(stopping ? "{\"status\":\"stopping\"}\n" : "{\"status\":\"serving\"}\n",
                         "application/json");
  });
  if (cluster != nullptr) serve_cluster(http, *cluster);
  s.port = where.port == 0 ? http.bind_to_any_port(s.host) : where.port;
  const bool bound = where.port == 0 ? s.port > 0 : http.bind_to_port(s.host, where.port);
  if (!bound) return fail(ErrorCode::kAlreadyExists, "listen for the admin endpoint", where.port);
  s.thread = std::thread([&s] { s.http.listen_after_bind(); });
  return std::unique_ptr<CacheAdmin>(new CacheAdmin(std::move(state)));
}

CacheAdmin::~CacheAdmin() {
  state_->http.stop();
  state_->thread.join();
}

std::string CacheAdmin::address() const { return fmt::format("http://{}:{}", state_->host, state_->port); }

void CacheAdmin::begin_stop() { state_->stopping.store(true, std::memory_order_relaxed); }

}  // namespace yonder::apps
