#pragma once
// What rcached can be told: memcached's option letters, and a few words of its own.
//
// Concurrency: values. Lifetime: owns all it holds.

#include <cstddef>
#include <cstdint>
#include <expected>
#include <string>
#include <utility>
#include <vector>

#include "yonder/cache/cluster.h"
#include "yonder/cache/server.h"
#include "yonder/cache/service.h"
#include "yonder/cache/store.h"
#include "yonder/cache/tls.h"

namespace yonder::apps {

struct CacheSettings {
  cache::StoreOptions store;
  cache::ServiceOptions service;
  cache::ServerOptions server;
  cache::TlsOptions tls;
  bool use_tls = false;
  bool crawl = true;
  bool daemonize = false;
  bool lock_memory = false;
  bool core_dumps = false;
  std::string user;
  std::string pid_file;
  std::string auth_file;
  std::string admin;  // host:port; empty: none
  cache::ClusterOptions cluster;
  bool in_cluster = false;
  std::string cluster_key;  // a file; empty: none
  // Options that memcached has and that mean nothing here; told once at the start.
  std::vector<std::string> without_effect;
};

struct SettingsAnswer {
  CacheSettings settings;
  // What the user asked for instead of a server (-h, -V): text to print, and end.
  std::string answer;
};

// Errors: one sentence for the user.
std::expected<SettingsAnswer, std::string> parse_settings(int argc, char** argv);

}  // namespace yonder::apps
