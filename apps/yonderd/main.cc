// yonderd: a memory node as a daemon.
//
//   yonderd --listen tcp://0.0.0.0:7400,shm:node-1 --memory 4GiB --config yonder.toml
//
// Says on standard output where it listens, one line each, then "ready". SIGTERM and
// SIGINT end it in an orderly way, SIGHUP makes it read its configuration again (log
// level and compaction; everything else needs a restart). Under systemd it says
// READY, RELOADING and STOPPING.
//
// With --keeper somebody else holds its memory too, and a daemon that is started after
// it goes on with its objects: however this one ended.
#include <fmt/format.h>
#include <systemd/sd-daemon.h>

#include <cstdio>
#include <memory>
#include <vector>

#include "apps/common/signals.h"
#include "apps/yonderd/admin.h"
#include "apps/yonderd/settings.h"
#include "apps/yonderd/systemd_keeper.h"
#include "yonder/base/log.h"
#include "yonder/fabric/open/open.h"
#include "yonder/node/keeper_client.h"
#include "yonder/node/server.h"
#include "yonder/os/steady_clock.h"
#include "yonder/telemetry/counters.h"

namespace {

using yonder::Deadline;
using yonder::Result;
using yonder::apps::AdminEndpoint;
using yonder::apps::BlockedSignals;
using yonder::apps::DaemonSettings;
using yonder::apps::load_settings;

constexpr yonder::Duration kStopTimeout = std::chrono::seconds(10);

int fail(const yonder::Error& error) {
  fmt::print(stderr, "yonderd: {}\n         {}\n", error.to_string(), yonder::error_remedy(error.code()));
  return 1;
}

void reload(const yonder::ConfigSources& sources, yonder::Logger& logger, yonder::node::Server& node) {
  const auto now = static_cast<long long>(yonder::os::SteadyClock::read().ns() / 1000);
  ::sd_notify(0, fmt::format("RELOADING=1\nMONOTONIC_USEC={}", now).c_str());
  const auto loaded = load_settings(sources);
  if (loaded) {
    logger.set_level(loaded->settings.log.level);
    node.set_compaction_policy(loaded->settings.node.compaction);
    yonder::log_info("yonderd", "configuration read again");
  } else {
    // A daemon that runs is worth more than one that insists on its file.
    yonder::log_error("yonderd", "configuration not read again",
                      {{"why", std::string_view(loaded.error().message)}});
  }
  ::sd_notify(0, "READY=1");
}

// Null if nobody is to keep the memory.
Result<std::unique_ptr<yonder::node::Keeper>> make_keeper(const DaemonSettings& settings) {
  if (settings.keeper.empty()) return nullptr;
  if (settings.keeper == "systemd") return yonder::apps::SystemdKeeper::create();
  return yonder::node::KeeperClient::connect({.path = settings.keeper, .node = settings.keeper_name});
}

void log_adoption(const yonder::node::AdoptionReport& report) {
  yonder::log_info("yonderd", "went on with the objects of before",
                   {{"objects", report.objects},
                    {"frames", report.frames},
                    {"writes_finished", report.writes_finished},
                    {"holds_ended", report.holds_ended},
                    {"moves_undone", report.moves_undone},
                    {"blocks_finished", report.blocks_finished}});
}

int serve(const DaemonSettings& settings, const yonder::ConfigSources& sources, yonder::Logger& logger,
          const BlockedSignals& signals) {
  yonder::telemetry::Registry registry;
  std::vector<std::unique_ptr<yonder::fabric::Fabric>> fabrics;
  yonder::node::NodeOptions options = settings.node;
  options.registry = &registry;
  for (const std::string& address : settings.listen) {
    auto fabric = yonder::fabric::open(address);
    if (!fabric) return fail(fabric.error());
    options.ports.push_back({.fabric = fabric->get(), .address = address});
    fabrics.push_back(*std::move(fabric));
  }
  auto keeper = make_keeper(settings);
  if (!keeper) return fail(keeper.error());
  options.heap.keeper = keeper->get();
  auto node = yonder::node::Server::create(options);
  if (!node) return fail(node.error());
  if ((*node)->heap().adoption()) log_adoption(*(*node)->heap().adoption());
  std::unique_ptr<AdminEndpoint> admin;
  if (!settings.admin.empty()) {
    auto made = yonder::apps::open_node_admin(settings.admin, **node, registry);
    if (!made) return fail(made.error());
    admin = *std::move(made);
    fmt::print("admin {}\n", admin->address());
  }
  for (std::size_t i = 0; i < options.ports.size(); ++i) fmt::print("node {}\n", (*node)->address(i));
  fmt::print("ready\n");
  std::fflush(stdout);
  yonder::log_info("yonderd", "serving", {{"memory_bytes", settings.node.heap.limit.count()}});
  ::sd_notify(0, "READY=1");

  for (int signal = signals.wait(); signal == SIGHUP; signal = signals.wait()) {
    reload(sources, logger, **node);
  }
  ::sd_notify(0, "STOPPING=1");
  yonder::log_info("yonderd", "stopping");
  if (admin != nullptr) admin->begin_stop();
  const yonder::os::SteadyClock clock;
  const Result<void> stopped = (*node)->stop(Deadline::after(clock, kStopTimeout));
  admin.reset();
  if (!stopped) return fail(stopped.error());
  yonder::log_info("yonderd", "stopped");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const yonder::ConfigSources sources = yonder::config_sources(argc, argv);
  const auto loaded = load_settings(sources);
  if (!loaded) {
    fmt::print(stderr, "yonderd: {}\n", loaded.error().message);
    return 2;
  }
  if (!loaded->answer.empty()) {
    fmt::print("{}", loaded->answer);
    return 0;
  }
  const BlockedSignals signals({SIGTERM, SIGINT, SIGHUP});
  auto logger = yonder::Logger::create(loaded->settings.log);
  if (!logger) return fail(logger.error());
  yonder::set_process_logger(logger->get());
  const int code = serve(loaded->settings, sources, **logger, signals);
  yonder::set_process_logger(nullptr);
  return code;
}
