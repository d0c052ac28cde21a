#include "bench/rcached/cache_cluster.h"

#include <fmt/format.h>
#include <httplib.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "yonder/cache/server.h"
#include "yonder/os/free_port.h"
#include "yonder/os/steady_clock.h"

namespace yonder::bench {
namespace {

using Json = nlohmann::json;

Result<Json> parse(const httplib::Result& answer, const char* what) {
  if (!answer || answer->status != 200) return fail(ErrorCode::kCorrupt, what, answer ? answer->status : 0);
  Json parsed = Json::parse(answer->body, nullptr, false);
  if (parsed.is_discarded()) return fail(ErrorCode::kCorrupt, what);
  return parsed;
}

// The first server makes all partitions before it is healthy.
Result<void> await_health(httplib::Client& admin) {
  const Instant give_up = os::SteadyClock::read() + std::chrono::seconds(20);
  for (;;) {
    const auto answer = admin.Get("/health");
    if (answer && answer->status == 200) return {};
    if (os::SteadyClock::read() > give_up)
      return fail(ErrorCode::kDeadlineExceeded, "a server of the cluster does not start");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace

CacheCluster::~CacheCluster() = default;

Result<std::unique_ptr<CacheCluster>> CacheCluster::start(const CacheClusterOptions& options) {
  auto cluster = std::unique_ptr<CacheCluster>(new CacheCluster());
  YONDER_TRY(directory_port, os::free_port());
  const std::string directory = options.fabric == "shm" ? fmt::format("shm:rcached-bench-{}", ::getpid())
                                                        : "tcp://" + directory_port.to_string();
  for (std::size_t i = 0; i < options.servers; ++i) {
    YONDER_TRY(admin, os::free_port());
    const std::string agent = options.fabric == "shm" ? "shm:" : "tcp://127.0.0.1:0";
    YONDER_TRY(process,
               CacheProcess::start({.program = options.program,
                                    .memory_mib = options.memory_mib,
                                    .threads = options.threads,
                                    .further = {fmt::format("--partitions={}", options.partitions),
                                                (i == 0 ? "--cluster=" : "--join=") + directory,
                                                "--agent=" + agent, "--admin=" + admin.to_string()}}));
    const std::string place = process.address().to_string();
    auto client = std::make_unique<httplib::Client>("127.0.0.1", admin.port());
    client->set_read_timeout(std::chrono::seconds(120));
    YONDER_TRY_VOID(await_health(*client));
    cluster->members_.push_back({std::move(process), place, std::move(client)});
  }
  return cluster;
}

std::vector<os::SocketAddress> CacheCluster::addresses() const {
  std::vector<os::SocketAddress> out;
  for (const Member& member : members_) out.push_back(member.process.address());
  return out;
}

Result<std::vector<std::size_t>> CacheCluster::owners() {
  YONDER_TRY(map, parse(members_.front().admin->Get("/api/v1/partitions"), "the map of a cluster"));
  std::vector<std::size_t> owners;
  for (const Json& place : map["partitions"]) {
    const std::string server = place.value("server", "");
    const auto owner = std::find_if(members_.begin(), members_.end(),
                                    [&](const Member& member) { return member.place == server; });
    if (owner == members_.end()) return fail(ErrorCode::kCorrupt, "a partition without a server");
    owners.push_back(static_cast<std::size_t>(owner - members_.begin()));
  }
  return owners;
}

Result<void> CacheCluster::order(std::size_t partition, std::size_t to) {
  const std::string request =
      fmt::format("/api/v1/migrate?partition={}&to={}&wait=0", partition, members_[to].place);
  YONDER_TRY_VOID(parse(members_.front().admin->Post(request), "order a move"));
  return {};
}

Result<void> CacheCluster::drain(std::size_t server) {
  YONDER_TRY_VOID(parse(members_[server].admin->Post("/api/v1/drain"), "drain a server"));
  return {};
}

Result<void> CacheCluster::limit_serving(double share) {
  std::vector<CpuQuota> quotas;
  for (const Member& member : members_) {
    YONDER_TRY(quota, CpuQuota::create(std::to_string(quotas.size()), share));
    quotas.push_back(std::move(quota));
    YONDER_TRY_VOID(quotas.back().take_threads(member.process.pid(), cache::kWorkerThreadName));
  }
  for (CpuQuota& quota : quotas) quotas_.push_back(std::move(quota));
  return {};
}

Result<bool> CacheCluster::is_moving(std::size_t server) {
  YONDER_TRY(map, parse(members_[server].admin->Get("/api/v1/partitions"), "the moves of a server"));
  return !map["moving"].empty();
}

}  // namespace yonder::bench
