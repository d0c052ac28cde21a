// fork, exec and spawn.
//
// fork(): the space is told (heap/paged_space.h says what a child then has). exec and
// spawn: names, arguments and environment are read by the kernel, and by posix_spawn() in
// a child that blocks all signals, so they must be there.
#include "apps/preload/processes.h"

#include <pthread.h>
#include <spawn.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "apps/preload/next.h"
#include "apps/preload/runtime.h"

namespace yonder::preload {
namespace {

// Strings, copied to memory that is never far.
class NearStrings {
 public:
  explicit NearStrings(char* const* strings) {
    const InternalScope internal;
    for (char* const* at = strings; at != nullptr && *at != nullptr; ++at) {
      texts_.push_back(std::make_unique<char[]>(std::strlen(*at) + 1));
      std::strcpy(texts_.back().get(), *at);  // NOLINT: it was measured.
      pointers_.push_back(texts_.back().get());
    }
    pointers_.push_back(nullptr);
  }
  char** data() { return pointers_.data(); }

 private:
  std::vector<std::unique_ptr<char[]>> texts_;
  std::vector<char*> pointers_;
};

void before_fork() {
  Runtime& far = *runtime();
  far.arena->lock_all();
  far.space->prepare_fork();
}
void in_parent() {
  Runtime& far = *runtime();
  far.space->after_fork_in_parent();
  far.arena->unlock_all();
}
void in_child() {
  Runtime& far = *runtime();
  far.space->after_fork_in_child();
  far.arena->unlock_all();
}

}  // namespace

void watch_forks() { ::pthread_atfork(&before_fork, &in_parent, &in_child); }

}  // namespace yonder::preload

using yonder::preload::NearStrings;
using yonder::preload::next;

namespace {

void touch(const char* text) {
  const volatile char* at = text;
  while (at != nullptr && *at != '\0') ++at;
}

// Without memory of our own: after vfork() it would be lost to the parent. An exec that
// meets a page which left just now fails with EFAULT before anything has happened.
template <typename Call>
int exec_touched(const char* path, char* const* arguments, char* const* environment, Call call) {
  constexpr int kAttempts = 100;
  int result = -1;
  for (int i = 0; i < kAttempts; ++i) {
    touch(path);
    for (char* const* at = arguments; at != nullptr && *at != nullptr; ++at) touch(*at);
    for (char* const* at = environment; at != nullptr && *at != nullptr; ++at) touch(*at);
    result = call();
    if (errno != EFAULT) break;
  }
  return result;
}

}  // namespace

YONDER_INTERPOSE int execve(const char* path, char* const* arguments, char* const* environment) noexcept {
  static const auto call = next<decltype(&::execve)>("execve");
  return exec_touched(path, arguments, environment, [&] { return call(path, arguments, environment); });
}

YONDER_INTERPOSE int execv(const char* path, char* const* arguments) noexcept {
  return execve(path, arguments, environ);
}

YONDER_INTERPOSE int execvp(const char* file, char* const* arguments) noexcept {
  static const auto call = next<decltype(&::execvp)>("execvp");
  return exec_touched(file, arguments, environ, [&] { return call(file, arguments); });
}

namespace {

using SpawnCall = int (*)(pid_t*, const char*, const posix_spawn_file_actions_t*, const posix_spawnattr_t*,
                          char* const*, char* const*);

int spawn_near(SpawnCall call, pid_t* child, const char* path, const posix_spawn_file_actions_t* actions,
               const posix_spawnattr_t* attributes, char* const* arguments, char* const* environment) {
  char* const name[] = {const_cast<char*>(path), nullptr};
  NearStrings near_path(name);
  NearStrings near_arguments(arguments);
  NearStrings near_environment(environment);
  pid_t started = 0;
  const int result =
      call(&started, *near_path.data(), actions, attributes, near_arguments.data(), near_environment.data());
  if (result == 0 && child != nullptr) *child = started;
  return result;
}

}  // namespace

YONDER_INTERPOSE int posix_spawn(pid_t* child, const char* path, const posix_spawn_file_actions_t* actions,
                                 const posix_spawnattr_t* attributes, char* const* arguments,
                                 char* const* environment) noexcept {
  static const auto call = next<SpawnCall>("posix_spawn", "GLIBC_2.15");
  return spawn_near(call, child, path, actions, attributes, arguments, environment);
}

YONDER_INTERPOSE int posix_spawnp(pid_t* child, const char* file, const posix_spawn_file_actions_t* actions,
                                  const posix_spawnattr_t* attributes, char* const* arguments,
                                  char* const* environment) noexcept {
  static const auto call = next<SpawnCall>("posix_spawnp", "GLIBC_2.15");
  return spawn_near(call, child, file, actions, attributes, arguments, environment);
}
