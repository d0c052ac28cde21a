#include "apps/yonder/cluster.h"

#include <fmt/format.h>
#include <httplib.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "yonder/base/time.h"

namespace yonder::apps {

namespace {

using Json = nlohmann::json;

httplib::Client connect(const std::string& admin, Duration patience = std::chrono::minutes(1)) {
  httplib::Client client("http://" + admin);
  client.set_read_timeout(patience);
  return client;
}

// The body, or what the server has against it.
Result<Json> parse(const httplib::Result& answer) {
  if (!answer)
    return fail(ErrorCode::kConnectionRefused, "ask rcached: nobody answers at its admin endpoint");
  Json body = Json::parse(answer->body, nullptr, false);
  if (body.is_discarded() || !body.is_object())
    return fail(ErrorCode::kProtocolMismatch, "ask rcached: that is no admin endpoint of a cluster",
                answer->status);
  if (answer->status == 200) return body;
  fmt::print(stderr, "{}\n", body.value("text", body.value("error", "refused")));
  return fail(answer->status == 404 ? ErrorCode::kNotFound : ErrorCode::kInvalidArgument, "ask rcached",
              answer->status);
}

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
               left == 0 ? "" : fmt::format(", {} left", amount(left)), error.empty() ? "" : ": " + error);
  }
}

}  // namespace

Result<void> run_migrate(const MigrateOptions& options) {
  httplib::Client client = connect(options.admin);
  YONDER_TRY_VOID(
      parse(client.Post(fmt::format("/api/v1/migrate?partition={}&to={}", options.partition, options.to))));
  fmt::print("partition {} is served by {}\n", options.partition, options.to);
  return {};
}

Result<void> run_rebalance(const RebalanceOptions& options) {
  httplib::Client client = connect(options.admin);
  const char* path = "/api/v1/rebalance";
  YONDER_TRY(plan, parse(options.apply ? client.Post(path) : client.Get(path)));
  if (options.json) {
    fmt::print("{}\n", plan.dump());
    return {};
  }
  print_jobs(plan, "nothing to move: no server has much more to do than the others");
  if (plan.value("jobs", Json::array()).empty()) return {};
  fmt::print("{}\n", options.apply ? "ordered; `yonder jobs` shows how far they are"
                                   : "this was a dry run; --apply moves them");
  return {};
}

Result<void> run_jobs(const JobsOptions& options) {
  httplib::Client client = connect(options.admin);
  if (options.cancel != 0)
    YONDER_TRY_VOID(parse(client.Post(fmt::format("/api/v1/jobs/{}/cancel", options.cancel))));
  if (options.roll_back != 0)
    YONDER_TRY_VOID(parse(client.Post(fmt::format("/api/v1/jobs/{}/rollback", options.roll_back))));
  if (options.pause) YONDER_TRY_VOID(parse(client.Post("/api/v1/pause")));
  if (options.resume) YONDER_TRY_VOID(parse(client.Post("/api/v1/resume")));
  YONDER_TRY(jobs, parse(client.Get("/api/v1/jobs")));
  if (options.json) {
    fmt::print("{}\n", jobs.dump());
  } else {
    print_jobs(jobs, "no moves were asked for");
  }
  return {};
}

Result<void> run_drain(const DrainOptions& options) {
  // As long as the server itself would try.
  httplib::Client client = connect(options.admin, std::chrono::minutes(11));
  YONDER_TRY_VOID(parse(client.Post("/api/v1/drain")));
  fmt::print("no partition is left at this server; it can be stopped\n");
  return {};
}

}  // namespace yonder::apps
