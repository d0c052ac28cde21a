#pragma once
// AdminEndpoint: a daemon's HTTP on a port of its own, for people and monitors.
//
//   AdminEndpoint endpoint([&] { return registry.snapshot(); });
//   endpoint.http().Get("/api/v1/blocks", …);
//   YONDER_TRY_VOID(endpoint.listen("127.0.0.1:7480"));
//
// Every daemon's has
//
//   GET /metrics   Prometheus text
//   GET /health    200 while the daemon serves, 503 while it stops
//
// and what else the daemon adds before it listens. It has no authentication: it is for an
// address of the loopback. Two requests at a time, 64 KiB each, five seconds to send one:
// a slow monitor must not keep a thread for long.
//
// Concurrency: one thread; handlers run on threads of its own. Lifetime: what the handlers
// use outlives it.

#include <atomic>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <thread>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/telemetry/counters.h"

namespace httplib {
class Server;
struct Response;
}  // namespace httplib

namespace yonder::apps {

class AdminEndpoint {
 public:
  // Called for each request of /metrics.
  using Metrics = std::function<std::vector<telemetry::MetricValue>()>;

  explicit AdminEndpoint(Metrics metrics);
  // Waits for requests that are being answered.
  ~AdminEndpoint();
  AdminEndpoint(const AdminEndpoint&) = delete;
  AdminEndpoint& operator=(const AdminEndpoint&) = delete;

  // For further handlers; not after listen().
  httplib::Server& http() { return *http_; }
  // Listens on `place` (host:port; port 0: one that is free) and serves. Once.
  // kAddressInvalid; kAlreadyExists if the port is taken.
  Result<void> listen(const std::string& place);
  // "http://127.0.0.1:7480"
  std::string address() const;
  // From now on /health says that the daemon is stopping.
  void begin_stop();

 private:
  const Metrics metrics_;
  // relaxed everywhere: a monitor that hears of it a moment later is not misled.
  std::atomic<bool> stopping_{false};
  const std::unique_ptr<httplib::Server> http_;
  std::string host_;
  int port_ = 0;
  std::atomic<bool> ended_{false};  // The thread has nothing more to do.
  std::thread thread_;
};

// One line of JSON. Text that is not UTF-8 (a peer's, say) is sent with replacement characters.
void answer_json(httplib::Response& response, const nlohmann::json& json);

}  // namespace yonder::apps
