#include "apps/rcached/admin.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <httplib.h>

#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "apps/rcached/metrics.h"
#include "yonder/os/steady_clock.h"

namespace yonder::apps {

using Json = nlohmann::json;

namespace {

constexpr Duration kMoveTimeout = std::chrono::seconds(30);
constexpr Duration kDrainTimeout = std::chrono::minutes(10);

void refuse(httplib::Response& response, const Error& error, const std::string& text) {
  // 409: the request was understood, and the cluster's state does not allow it.
  response.status = error == ErrorCode::kNotFound ? 404 : 409;
  answer_json(response, Json{{"error", error_name(error.code())}, {"text", text}});
}
void refuse(httplib::Response& response, const Error& error) { refuse(response, error, error.to_string()); }

void answer(httplib::Response& response, const Result<void>& done) {
  if (!done) return refuse(response, done.error());
  answer_json(response, Json{{"done", true}});
}

void answer(httplib::Response& response, const Result<std::uint64_t>& job) {
  if (!job) return refuse(response, job.error());
  answer_json(response, Json{{"job", *job}});
}

const char* name_of(cache::OrderState state) {
  constexpr std::array kNames = {"queued", "running", "done", "failed", "cancelled", "arriving", "paused"};
  return kNames[static_cast<std::size_t>(state)];
}

void answer(httplib::Response& response, const Result<std::vector<cache::Cluster::Job>>& jobs) {
  if (!jobs) return refuse(response, jobs.error());
  Json listed = Json::array();
  for (const cache::Cluster::Job& job : *jobs) {
    listed.push_back({{"job", job.order.id},
                      {"partition", job.order.partition},
                      {"from", job.from},
                      {"to", job.to},
                      {"state", job.order.id == 0 ? "planned" : name_of(job.order.state)},
                      {"bytes_left", job.order.bytes_left},
                      {"error", job.order.error == ErrorCode::kOk ? "" : error_name(job.order.error)}});
  }
  answer_json(response, Json{{"jobs", std::move(listed)}});
}

Json describe(const cache::Cluster& cluster) {
  Json partitions = Json::array();
  for (const cache::PartitionPlace& place : cluster.map()) {
    partitions.push_back(
        {{"partition", place.partition}, {"server", place.server}, {"epoch", place.epoch.value()}});
  }
  Json moving = Json::array();
  for (const cache::Cluster::Moving& move : cluster.moving()) {
    moving.push_back({{"partition", move.partition},
                      {"direction", move.arriving ? "in" : "out"},
                      {"bytes_left", move.bytes_left}});
  }
  return {{"partitions", std::move(partitions)}, {"moving", std::move(moving)}};
}

// Until the owner has made the move, or could not.
Result<void> wait_for(cache::Cluster& cluster, std::uint64_t job) {
  const os::SteadyClock clock;
  const Deadline deadline = Deadline::after(clock, kMoveTimeout);
  while (!deadline.passed(clock.now())) {
    YONDER_TRY(jobs, cluster.jobs());
    for (const cache::Cluster::Job& listed : jobs) {
      if (listed.order.id != job) continue;
      // From then on the target serves it, also while its bytes arrive.
      if (listed.order.state == cache::OrderState::kDone ||
          listed.order.state == cache::OrderState::kArriving)
        return {};
      if (listed.order.state == cache::OrderState::kFailed)
        return fail(listed.order.error, "move a partition");
      if (listed.order.state == cache::OrderState::kCancelled)
        return fail(ErrorCode::kCancelled, "move a partition");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return fail(ErrorCode::kDeadlineExceeded, "move a partition");
}

// Why a move was not ordered, in words of who asked for it.
std::string explain(cache::Cluster& cluster, std::uint32_t partition, const std::string& to,
                    const Error& error) {
  const std::vector<cache::PartitionPlace> map = cluster.map();
  if (partition >= map.size())
    return fmt::format("there is no partition {}: they are numbered from 0 to {}", partition, map.size() - 1);
  if (error == ErrorCode::kNotFound) {
    const std::vector<std::string> others = cluster.servers().value_or(std::vector<std::string>{});
    return fmt::format("no server of the cluster serves clients at {}; they are at {}", to,
                       fmt::join(others, ", "));
  }
  if (error != ErrorCode::kAlreadyExists) return error.to_string();
  for (const cache::Cluster::Job& job : cluster.jobs().value_or(std::vector<cache::Cluster::Job>{})) {
    const cache::OrderState state = job.order.state;
    if (job.order.partition == partition && cache::is_under_way(state) &&
        state != cache::OrderState::kArriving)
      return fmt::format("partition {} is about to move already: job {}", partition, job.order.id);
  }
  return fmt::format("partition {} is at {} already", partition, to);
}

void migrate(cache::Cluster& cluster, const httplib::Request& request, httplib::Response& response) {
  const std::string number = request.get_param_value("partition");
  std::uint32_t partition = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), partition);
  const std::string to = request.get_param_value("to");
  if (error != std::errc() || end != number.data() + number.size() || to.empty()) {
    response.status = 400;
    return answer_json(response, Json{{"error", "give partition=NUMBER and to=HOST:PORT"}});
  }
  const Result<std::uint64_t> job = cluster.order(partition, to);
  if (!job) return refuse(response, job.error(), explain(cluster, partition, to, job.error()));
  if (request.get_param_value("wait") == "0") return answer(response, job);
  answer(response, wait_for(cluster, *job));
}

// The number between two parts of a path, as /api/v1/jobs/7/cancel has.
std::uint64_t job_of(const httplib::Request& request) {
  std::uint64_t job = 0;
  const std::string text = request.matches[1];
  std::from_chars(text.data(), text.data() + text.size(), job);
  return job;
}

template <typename T>
void answer_about(httplib::Response& response, std::uint64_t job, const Result<T>& done,
                  const char* refusal) {
  if (done) return answer(response, done);
  const bool unknown = done.error() == ErrorCode::kNotFound;
  const bool refused = done.error() == ErrorCode::kAlreadyExists;
  refuse(response, done.error(),
         unknown   ? fmt::format("there is no job {}, or one of its servers is gone", job)
         : refused ? fmt::format("job {} {}", job, refusal)
                   : done.error().to_string());
}

void serve_cluster(httplib::Server& http, cache::Cluster& cluster) {
  http.Get("/api/v1/partitions", [&cluster](const httplib::Request&, httplib::Response& response) {
    answer_json(response, describe(cluster));
  });
  http.Post("/api/v1/migrate", [&cluster](const httplib::Request& request, httplib::Response& response) {
    migrate(cluster, request, response);
  });
  http.Get("/api/v1/jobs", [&cluster](const httplib::Request&, httplib::Response& response) {
    answer(response, cluster.jobs());
  });
  http.Post(R"(/api/v1/jobs/(\d+)/cancel)",
            [&cluster](const httplib::Request& request, httplib::Response& response) {
              const std::uint64_t job = job_of(request);
              answer_about(response, job, cluster.cancel(job),
                           "has begun or ended: only one that waits can be cancelled");
            });
  http.Post(R"(/api/v1/jobs/(\d+)/rollback)", [&cluster](const httplib::Request& request,
                                                         httplib::Response& response) {
    const std::uint64_t job = job_of(request);
    answer_about(response, job, cluster.roll_back(job),
                 "cannot be rolled back: its partition has not moved, is back, or is about to move");
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

Result<std::unique_ptr<AdminEndpoint>> open_cache_admin(const std::string& place, cache::Service& service,
                                                        cache::Server& server, cache::Cluster* cluster) {
  auto endpoint =
      std::make_unique<AdminEndpoint>([&service, &server] { return metrics_of(service, server); });
  if (cluster != nullptr) serve_cluster(endpoint->http(), *cluster);
  YONDER_TRY_VOID(endpoint->listen(place));
  return endpoint;
}

}  // namespace yonder::apps
