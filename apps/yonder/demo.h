#pragma once
// `yonder demo`: the first minute with Yonder.
//
// Starts another process that lends its memory, moves data one-sidedly into it
// and back over shared memory and TCP, checks every byte, and shows how long a
// read takes.
//
// Concurrency: one thread.

#include <string>

#include "yonder/base/result.h"

namespace yonder::apps {

struct DemoOptions {
  std::string program;  // Path of this program, to start the target with.
  int reads = 20000;    // Per provider and size.
};

Result<void> run_demo(const DemoOptions& options);

}  // namespace yonder::apps
