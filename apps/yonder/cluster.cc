#include "apps/yonder/cluster.h"

#include <fmt/format.h>
#include <httplib.h>

#include <nlohmann/json.hpp>
#include <utility>

namespace yonder::apps {

namespace {

using Json = nlohmann::json;

httplib::Client connect(const std::string& admin) {
  httplib::Client client("http://" + admin);
  client.set_read_timeout(std::chrono::seconds(60));
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

void print_jobs(const Json& body) {
  const Json jobs = body.value("jobs", Json::array());
  if (jobs.empty()) fmt::print("nothing to move\n");
  for (const Json& job : jobs) {
    fmt::print("{:>6}  partition {:<6} {} -> {}  {} {}\n", job.value("job", 0), job.value("partition", 0),
               job.value("from", "?"), job.value("to", "?"), job.value("state", "?"), job.value("error", ""));
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
  print_jobs(plan);
  if (!options.apply && !plan.value("jobs", Json::array()).empty())
    fmt::print("this was a dry run; --apply moves them\n");
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
  print_jobs(jobs);
  return {};
}

}  // namespace yonder::apps
