// rcached: a memcached whose partitions can move between servers.
//
//   rcached -p 11211 -m 1024 -t 4
//
// Takes memcached's options. Says on standard output where it listens, one line each, then
// "ready". SIGTERM, SIGINT and SIGUSR1 end it in an orderly way: clients get the replies to
// what they have sent. SIGHUP makes it read its certificates again.
#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <memory>

#include "apps/common/signals.h"
#include "apps/rcached/admin.h"
#include "apps/rcached/settings.h"
#include "yonder/base/log.h"
#include "yonder/cache/cluster.h"
#include "yonder/cache/cluster_key.h"
#include "yonder/cache/peer_tls.h"
#include "yonder/cache/server.h"
#include "yonder/os/steady_clock.h"

namespace {

using yonder::Deadline;
using yonder::Result;
using yonder::apps::AdminEndpoint;
using yonder::apps::BlockedSignals;
using yonder::apps::CacheSettings;

constexpr yonder::Duration kStopTimeout = std::chrono::seconds(10);

int fail(const yonder::Error& error) {
  fmt::print(stderr, "rcached: {}\n         {}\n", error.to_string(), yonder::error_remedy(error.code()));
  return 1;
}

int fail(std::string_view what) {
  fmt::print(stderr, "rcached: {}\n", what);
  return 1;
}

// The empty string if all went well.
std::string become(const std::string& user) {
  if (user.empty() || ::geteuid() != 0) return {};
  const passwd* entry = ::getpwnam(user.c_str());
  if (entry == nullptr) return fmt::format("there is no user \"{}\"", user);
  if (::setgroups(0, nullptr) != 0 || ::setgid(entry->pw_gid) != 0 || ::setuid(entry->pw_uid) != 0) {
    return fmt::format("cannot become user \"{}\"", user);
  }
  return {};
}

std::string prepare_process(const CacheSettings& settings) {
  // Each client needs a descriptor, and the rest of the process a few.
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  const rlim_t needed = settings.server.max_connections + yonder::cache::kReservedFds;
  if (files.rlim_cur < needed) {
    files.rlim_cur = needed;
    files.rlim_max = std::max(files.rlim_max, needed);
    if (::setrlimit(RLIMIT_NOFILE, &files) != 0) {
      return fmt::format("-c {} needs more open files than this process may have",
                         settings.server.max_connections);
    }
  }
  if (settings.core_dumps) {
    const rlimit unlimited{RLIM_INFINITY, RLIM_INFINITY};
    if (::setrlimit(RLIMIT_CORE, &unlimited) != 0) return "cannot lift the limit on core files";
  }
  if (const std::string wrong = become(settings.user); !wrong.empty()) return wrong;
  if (settings.daemonize && ::daemon(0, 0) != 0) return "cannot go to the background";
  if (settings.lock_memory && ::mlockall(MCL_FUTURE | MCL_ONFAULT) != 0) return "cannot lock the memory (-k)";
  if (settings.pid_file.empty()) return {};
  std::ofstream file(settings.pid_file);
  file << ::getpid() << '\n';
  return file.good() ? "" : fmt::format("cannot write \"{}\"", settings.pid_file);
}

// Null without one.
Result<std::unique_ptr<yonder::cache::Cluster>> join_cluster(const CacheSettings& settings,
                                                             yonder::cache::Store& store,
                                                             const yonder::cache::Server& server) {
  if (!settings.in_cluster) return nullptr;
  yonder::cache::ClusterOptions options = settings.cluster;
  if (options.server.empty()) options.server = server.addresses().front();
  auto cluster = yonder::cache::Cluster::join(store, options);
  if (cluster) fmt::print("cluster {}\n", (*cluster)->directory_address());
  return cluster;
}

int run(yonder::cache::Service& service, yonder::cache::Server& server, const CacheSettings& settings,
        const BlockedSignals& signals) {
  const auto cluster = join_cluster(settings, service.store(), server);
  if (!cluster) return fail(cluster.error());
  std::unique_ptr<AdminEndpoint> admin;
  if (!settings.admin.empty()) {
    auto made = yonder::apps::open_cache_admin(settings.admin, service, server, cluster->get());
    if (!made) return fail(made.error());
    admin = *std::move(made);
    fmt::print("admin {}\n", admin->address());
  }
  for (const std::string& address : server.addresses()) fmt::print("listen {}\n", address);
  fmt::print("ready\n");
  std::fflush(stdout);
  for (int signal = signals.wait(); signal == SIGHUP; signal = signals.wait()) {
    if (!service.hooks().refresh_certificates) continue;
    const Result<void> refreshed = service.hooks().refresh_certificates();
    if (!refreshed) yonder::log_error("rcached", "certificates not read again", {{"why", refreshed.error()}});
  }
  yonder::log_info("rcached", "stopping");
  if (admin != nullptr) admin->begin_stop();
  const yonder::os::SteadyClock clock;
  server.stop(Deadline::after(clock, kStopTimeout));
  return 0;
}

// What a cluster's key is needed for; nothing without one.
struct ClusterSecret {
  std::shared_ptr<const yonder::cache::ClusterKey> key;
  std::unique_ptr<yonder::cache::PeerTls> tls;
};

Result<ClusterSecret> read_secret(const CacheSettings& settings) {
  ClusterSecret secret;
  if (settings.cluster_key.empty()) return secret;
  YONDER_TRY(key, yonder::cache::ClusterKey::read(settings.cluster_key));
  YONDER_TRY(tls, yonder::cache::PeerTls::create(key));
  secret.key = std::move(key);
  secret.tls = std::move(tls);
  return secret;
}

int serve(const CacheSettings& given, const BlockedSignals& signals) {
  const Result<ClusterSecret> secret = read_secret(given);
  if (!secret) return fail(secret.error());
  CacheSettings settings = given;
  settings.cluster.key = settings.tls.cluster_key = secret->key;
  settings.server.peers.tls = secret->tls.get();
  auto store = yonder::cache::Store::create(settings.store);
  if (!store) return fail(store.error());
  yonder::cache::Service service(**store, settings.service);
  service.set_crawls(settings.crawl);
  yonder::cache::ServerOptions options = settings.server;
  std::unique_ptr<yonder::cache::TlsServer> tls;
  yonder::cache::Service::Hooks hooks;
  // The signal takes the way of any other, so that there is one way to stop.
  hooks.stop = [](bool graceful) { ::kill(::getpid(), graceful ? SIGUSR1 : SIGINT); };
  if (settings.use_tls) {
    auto made = yonder::cache::TlsServer::create(settings.tls);
    if (!made) return fail(made.error());
    tls = *std::move(made);
    options.tls = tls.get();
    hooks.refresh_certificates = [&tls] { return tls->refresh(); };
  }
  if (!settings.auth_file.empty()) {
    auto tokens = yonder::cache::AuthTokens::read(settings.auth_file);
    if (!tokens) return fail(tokens.error());
    service.set_auth(std::make_unique<yonder::cache::AuthTokens>(*std::move(tokens)));
  }
  service.set_hooks(std::move(hooks));
  auto server = yonder::cache::Server::create(service, options);
  if (!server) return fail(server.error());
  const int code = run(service, **server, settings, signals);
  if (!settings.pid_file.empty()) ::unlink(settings.pid_file.c_str());
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  const auto parsed = yonder::apps::parse_settings(argc, argv);
  if (!parsed) {
    fmt::print(stderr, "rcached: {}\n", parsed.error());
    return 64;
  }
  if (!parsed->answer.empty()) {
    fmt::print("{}", parsed->answer);
    return 0;
  }
  const CacheSettings& settings = parsed->settings;
  if (const std::string wrong = prepare_process(settings); !wrong.empty()) return fail(wrong);
  const BlockedSignals signals({SIGTERM, SIGINT, SIGHUP, SIGUSR1});
  const yonder::LogLevel level =
      settings.service.verbosity > 0 ? yonder::LogLevel::kDebug : yonder::LogLevel::kWarn;
  auto logger = yonder::Logger::create({.level = level});
  if (!logger) return fail(logger.error());
  yonder::set_process_logger(logger->get());
  for (const std::string& option : settings.without_effect) {
    yonder::log_info("rcached", "option without effect", {{"option", option}});
  }
  const int code = serve(settings, signals);
  yonder::set_process_logger(nullptr);
  return code;
}
