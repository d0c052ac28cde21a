#include "apps/yonder/run.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "yonder/base/units.h"
#include "yonder/heap/paged_space.h"

namespace yonder::apps {
namespace {

constexpr const char* kLibrary = "libyonder_preload.so";

// Beside the program (a build), or where it was installed with it.
Result<std::string> find_library(const RunOptions& options) {
  if (!options.library.empty()) return options.library;
  const std::filesystem::path here = std::filesystem::path(options.program).parent_path();
  for (const char* folder : {"../lib", "../lib/x86_64-linux-gnu", "../lib64", "."}) {
    const std::filesystem::path candidate = here / folder / kLibrary;
    std::error_code error;
    if (std::filesystem::exists(candidate, error)) return std::filesystem::canonical(candidate).string();
  }
  return fail(ErrorCode::kNotFound, "libyonder_preload.so beside this program; give it with --library");
}

Bytes machine_memory() {
  return Bytes(static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
               static_cast<std::uint64_t>(::sysconf(_SC_PAGE_SIZE)));
}

void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }

// Before what is there already: another preloaded library keeps its place behind ours.
void set_preload(const std::string& library) {
  const char* before = std::getenv("LD_PRELOAD");
  set("LD_PRELOAD", before == nullptr || *before == '\0' ? library : library + ":" + before);
}

}  // namespace

Result<void> run_program(const RunOptions& options) {
  YONDER_TRY(library, find_library(options));
  Bytes far = machine_memory();
  if (!options.far.empty()) {
    YONDER_TRY(given, parse_bytes(options.far));
    far = given;
  }
  YONDER_TRY(local, parse_bytes_of(options.local, far));
  if (local.count() < heap::PagedSpace::kMinBudgetPages * heap::kPageBytes ||
      far.count() < heap::kPageBytes) {
    return fail(ErrorCode::kInvalidArgument, "--local and --far: at least 64 pages may be local");
  }
  set_preload(library);
  set("YONDER_FAR_BYTES", std::to_string(far.count()));
  set("YONDER_LOCAL_BYTES", std::to_string(local.count()));
  if (!options.node.empty()) set("YONDER_NODE", options.node);
  if (!options.stats.empty()) set("YONDER_FAR_STATS", options.stats);
  std::vector<char*> arguments;
  for (const std::string& argument : options.command)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments.front(), arguments.data());
  if (errno == ENOENT) return fail(ErrorCode::kNotFound, "the program to run");
  return fail_errno("exec of the program to run");
}

}  // namespace yonder::apps
