#include "bench/objects/jemalloc.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace yonder::bench {
namespace {

constexpr const char* kTunables = "GLIBC_TUNABLES";
constexpr std::string_view kMoreRoom = "glibc.rtld.optional_static_tls=16384";

// The arguments of this process, which its parts are not given.
std::vector<std::string> own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::vector<std::string> arguments;
  for (std::size_t at = 0; at < all.size(); at += arguments.back().size() + 1) {
    arguments.emplace_back(all.c_str() + at);
  }
  return arguments;
}

}  // namespace

Jemalloc Jemalloc::load() {
  Jemalloc out;
  void* library = ::dlopen("libjemalloc.so.2", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return out;
  out.allocate = reinterpret_cast<void* (*)(std::size_t)>(::dlsym(library, "malloc"));
  out.release = reinterpret_cast<void (*)(void*)>(::dlsym(library, "free"));
  return out;
}

void make_room_for_jemalloc() {
  if (Jemalloc::load()) return;
  const char* set = std::getenv(kTunables);
  std::string tunables = set == nullptr ? "" : set;
  if (tunables.find("optional_static_tls") != std::string::npos) return;
  if (!tunables.empty()) tunables += ':';
  tunables += kMoreRoom;
  ::setenv(kTunables, tunables.c_str(), 1);
  std::vector<std::string> arguments = own_arguments();
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  ::execv("/proc/self/exe", argv.data());  // Returns only if it failed: then there is no ratio.
}

}  // namespace yonder::bench
