#pragma once
// `yonder run`: an unmodified program with far memory.
//
// Concurrency: one thread. Lifetime: the process becomes the program.

#include <string>
#include <vector>

#include "yonder/base/result.h"

namespace yonder::apps {

struct RunOptions {
  std::string program;  // Of this process: the library is looked for beside it.
  std::string local = "25%";
  std::string far;   // Empty: as much as this machine has memory.
  std::string node;  // Empty: memory of this machine.
  std::string stats;
  std::string library;  // Empty: looked for.
  std::vector<std::string> command;
};

// Does not return if it works. Errors: kNotFound (no such program, or no library),
// kInvalidArgument (sizes), kOsError.
Result<void> run_program(const RunOptions& options);

}  // namespace yonder::apps
