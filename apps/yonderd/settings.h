#pragma once
// What yonderd can be told, and what it makes of it.
//
// Concurrency: values; load() from any thread. Lifetime: owns all it holds.

#include <expected>
#include <string>
#include <vector>

#include "yonder/base/config.h"
#include "yonder/base/log.h"
#include "yonder/node/server.h"

namespace yonder::apps {

struct DaemonSettings {
  std::vector<std::string> listen;
  std::string admin;        // host:port; empty: no admin endpoint
  std::string keeper;       // "systemd", a keeper's socket, or empty: nobody keeps the memory
  std::string keeper_name;  // under which the keeper knows this node
  LogOptions log;
  node::NodeOptions node;  // Without its ports: they need fabrics.
};

struct LoadedSettings {
  DaemonSettings settings;
  // What the user asked for instead of a daemon: text to print, and end.
  std::string answer;
};

// Flags over environment over file over defaults. The same sources give the same
// settings again, with what the file says then: that is what a reload is.
std::expected<LoadedSettings, ConfigError> load_settings(const ConfigSources& sources);

}  // namespace yonder::apps
