// yonder-keeper: holds the memory of yonderd while it is being replaced.
//
//   yonder-keeper --listen /run/yonder/keeper &
//   yonderd --keeper /run/yonder/keeper …
//
// Says "ready" on standard output. SIGTERM and SIGINT end it; what it held lives on in
// the daemons that run, and is lost where none does.
#include <fmt/format.h>
#include <sys/resource.h>
#include <systemd/sd-daemon.h>

#include <cstdio>
#include <string>

#include "yonder/base/config.h"
#include "yonder/base/log.h"
#include "yonder/node/keeper_server.h"
#include "yonder/os/signal.h"

namespace {

struct Options {
  yonder::ConfigSchema schema;
  yonder::Option<std::string> listen = schema.add<std::string>({.name = "keeper.listen",
                                                                .fallback = "/run/yonder/keeper",
                                                                .help = "the socket: a path, or @name",
                                                                .alias = "--listen"});
  yonder::Option<std::int64_t> max_files = schema.add<std::int64_t>({.name = "keeper.max_files",
                                                                     .fallback = 4096,
                                                                     .help = "of all nodes together",
                                                                     .min = 4,
                                                                     .max = 1 << 20});
};

int fail(const yonder::Error& error) {
  fmt::print(stderr, "yonder-keeper: {}\n               {}\n", error.to_string(),
             yonder::error_remedy(error.code()));
  return 1;
}

// As many descriptors as the system lets us have.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

int keep(const yonder::node::KeeperServer::Options& options) {
  raise_descriptor_limit();
  auto signals = yonder::os::StopSignals::create();
  if (!signals) return fail(signals.error());
  auto server = yonder::node::KeeperServer::create(options);
  if (!server) return fail(server.error());
  fmt::print("ready\n");
  std::fflush(stdout);
  ::sd_notify(0, "READY=1");
  const auto served = (*server)->serve(yonder::Deadline::never(), &signals->fd());
  ::sd_notify(0, "STOPPING=1");
  return served ? 0 : fail(served.error());
}

}  // namespace

int main(int argc, char** argv) {
  const Options options;
  const auto config = yonder::load_config(options.schema, yonder::config_sources(argc, argv));
  if (!config) {
    fmt::print(stderr, "yonder-keeper: {}\n", config.error().message);
    return 2;
  }
  if (config->help_requested()) {
    fmt::print("yonder-keeper: holds the memory of nodes.\n\n{}", options.schema.help());
    return 0;
  }
  if (config->version_requested()) {
    fmt::print("yonder-keeper " YONDER_VERSION "\n");
    return 0;
  }
  if (config->print_requested()) {
    fmt::print("{}", config->print());
    return 0;
  }
  return keep({.path = config->get(options.listen),
               .max_files = static_cast<std::size_t>(config->get(options.max_files))});
}
