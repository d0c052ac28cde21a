#include "apps/common/admin_endpoint.h"

#include <fmt/format.h>
#include <httplib.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "yonder/os/address.h"
#include "yonder/telemetry/prometheus.h"

namespace yonder::apps {

using Json = nlohmann::json;

AdminEndpoint::AdminEndpoint(Metrics metrics)
    : metrics_(std::move(metrics)), http_(std::make_unique<httplib::Server>()) {
  http_->new_task_queue = [] { return new httplib::ThreadPool(2); };
  http_->set_read_timeout(std::chrono::seconds(5));
  http_->set_write_timeout(std::chrono::seconds(5));
  http_->set_payload_max_length(64 * 1024);
  // Not httplib's SO_REUSEPORT, with which a second daemon would share the port unnoticed.
  http_->set_socket_options([](socket_t socket) {
    const int on = 1;
    (void)::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  });
  http_->Get("/metrics", [this](const httplib::Request&, httplib::Response& response) {
    response.set_content(telemetry::to_prometheus(metrics_()),
                         std::string(telemetry::kPrometheusContentType));
  });
  http_->Get("/health", [this](const httplib::Request&, httplib::Response& response) {
    const bool stopping = stopping_.load(std::memory_order_relaxed);
    response.status = stopping ? 503 : 200;
    answer_json(response, Json{{"status", stopping ? "stopping" : "serving"}});
  });
}

AdminEndpoint::~AdminEndpoint() {
  if (!thread_.joinable()) return;
  http_->stop();
  thread_.join();
}

Result<void> AdminEndpoint::listen(const std::string& place) {
  YONDER_TRY(where, os::parse_host_port(place));
  host_ = std::string(where.host);
  port_ = where.port == 0 ? http_->bind_to_any_port(host_) : where.port;
  const bool bound = where.port == 0 ? port_ > 0 : http_->bind_to_port(host_, where.port);
  if (!bound) return fail(ErrorCode::kAlreadyExists, "listen for the admin endpoint", where.port);
  thread_ = std::thread([this] {
    http_->listen_after_bind();
    ended_.store(true);
  });
  // A stop() that came before the thread accepts would be forgotten by it.
  while (!http_->is_running() && !ended_.load()) std::this_thread::yield();
  return {};
}

std::string AdminEndpoint::address() const {
  const bool is_v6 = host_.find(':') != std::string::npos;
  return is_v6 ? fmt::format("http://[{}]:{}", host_, port_) : fmt::format("http://{}:{}", host_, port_);
}

void AdminEndpoint::begin_stop() { stopping_.store(true, std::memory_order_relaxed); }

void answer_json(httplib::Response& response, const Json& json) {
  response.set_content(json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n", "application/json");
}

}  // namespace yonder::apps
