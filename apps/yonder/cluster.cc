#include "apps/yonder/cluster.h"

#include <fmt/format.h>
#include <httplib.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "yonder/base/time.h"

namespace yonder::apps {

namespace {

using Json = nlohmann::json;

// Asks an admin endpoint; says what is wrong if it refuses, or is none.
class Admin {
 public:
  explicit Admin(const std::string& place, Duration patience = std::chrono::minutes(1))
      : place_(place), client_("http://" + place) {
    client_.set_read_timeout(patience);
  }
  std::optional<Json> get(const std::string& path) { return parse(client_.Get(path)); }
  std::optional<Json> post(const std::string& path) { return parse(client_.Post(path)); }

 private:
  std::optional<Json> parse(const httplib::Result& answer) const {
    if (!answer) {
      fmt::print(
          stderr,
          "yonder: no answer from {} ({})\n        name the admin endpoint of a server with --admin; rcached "
          "has one if it was started with --admin=HOST:PORT\n",
          place_, httplib::to_string(answer.error()));
      return std::nullopt;
    }
    Json body = Json::parse(answer->body, nullptr, false);
    if (body.is_discarded() || !body.is_object()) {
      fmt::print(
          stderr,
          "yonder: {} is no admin endpoint of a cluster\n        start rcached with --cluster or --join\n",
          place_);
      return std::nullopt;
    }
    if (answer->status == 200) return body;
    fmt::print(stderr, "yonder: {}\n", body.value("text", body.value("error", "refused")));
    return std::nullopt;
  }

  const std::string place_;
  httplib::Client client_;
};

std::string amount(std::uint64_t bytes) {
  if (bytes < 1 << 20) return fmt::format("{:.1f} KiB", static_cast<double>(bytes) / (1 << 10));
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

// A planned move has no number yet.
void print_jobs(const Json& body, const char* if_none) {
  const Json jobs = body.value("jobs", Json::array());
  if (jobs.empty()) fmt::print("{}\n", if_none);
  for (const Json& job : jobs) {
    const std::uint64_t number = job.value("job", std::uint64_t{0});
    const std::uint64_t left = job.value("bytes_left", std::uint64_t{0});
    const std::string error = job.value("error", "");
    const auto server = [&](const char* which) {
      const std::string name = job.value(which, "");
      return name.empty() ? "(gone)" : name;
    };
    fmt::print("{:<8} partition {:<5} {} -> {}  {}{}{}\n", number == 0 ? "" : fmt::format("job {}", number),
               job.value("partition", 0), server("from"), server("to"), job.value("state", "?"),
               left == 0 ? "" : fmt::format(", {} {}", amount(left), number == 0 ? "to move" : "left"),
               error.empty() ? "" : ": " + error);
  }
}

}  // namespace

int run_migrate(const MigrateOptions& options) {
  Admin admin(options.admin);
  if (!admin.post(fmt::format("/api/v1/migrate?partition={}&to={}", options.partition, options.to))) return 1;
  fmt::print("partition {} is served by {}\n", options.partition, options.to);
  return 0;
}

int run_rebalance(const RebalanceOptions& options) {
  Admin admin(options.admin);
  const char* path = "/api/v1/rebalance";
  const std::optional<Json> plan = options.apply ? admin.post(path) : admin.get(path);
  if (!plan) return 1;
  if (options.json) {
    fmt::print("{}\n", plan->dump());
    return 0;
  }
  print_jobs(*plan, "nothing to move: no server has much more to do than the others");
  if (plan->value("jobs", Json::array()).empty()) return 0;
  fmt::print("{}\n", options.apply ? "ordered; `yonder jobs` shows how far they are"
                                   : "this was a dry run; --apply moves them");
  return 0;
}

int run_jobs(const JobsOptions& options) {
  Admin admin(options.admin);
  std::vector<std::string> orders;
  if (options.cancel != 0) orders.push_back(fmt::format("/api/v1/jobs/{}/cancel", options.cancel));
  if (options.roll_back != 0) orders.push_back(fmt::format("/api/v1/jobs/{}/rollback", options.roll_back));
  if (options.pause) orders.emplace_back("/api/v1/pause");
  if (options.resume) orders.emplace_back("/api/v1/resume");
  for (const std::string& path : orders) {
    if (!admin.post(path)) return 1;
  }
  const std::optional<Json> jobs = admin.get("/api/v1/jobs");
  if (!jobs) return 1;
  if (options.json) {
    fmt::print("{}\n", jobs->dump());
  } else {
    print_jobs(*jobs, "no moves were asked for");
  }
  return 0;
}

int run_drain(const DrainOptions& options) {
  // As long as the server itself would try.
  Admin admin(options.admin, std::chrono::minutes(11));
  if (!admin.post("/api/v1/drain")) return 1;
  fmt::print("no partition is left at this server; it can be stopped\n");
  return 0;
}

}  // namespace yonder::apps
