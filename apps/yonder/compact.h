#pragma once
// `yonder compact`: asks a running yonderd to compact, or what that would free.
//
// Concurrency: one thread.

#include <string>

#include "yonder/base/result.h"

namespace yonder::apps {

struct CompactOptions {
  std::string admin = "127.0.0.1:7480";  // The daemon's admin endpoint.
  bool dry_run = false;
};

// Prints what was, or would be, freed. kConnectionRefused if nobody answers there,
// kProtocolMismatch if it is no yonderd.
Result<void> run_compact(const CompactOptions& options);

}  // namespace yonder::apps
