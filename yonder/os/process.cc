#include "yonder/os/process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "yonder/os/mapping.h"
#include "yonder/os/wait.h"

// No header declares it under -std=c++23 without extensions.
extern "C" char** environ;  // NOLINT(readability-redundant-declaration)

namespace yonder::os {
namespace {

// glibc 2.36 declares the pidfd functions without extern "C", so C++ cannot link them.
int pidfd_open(pid_t pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0u)); }
int pidfd_send_signal(int pidfd, int signal) {
  return static_cast<int>(::syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0u));
}

std::string_view name_of(std::string_view entry) { return entry.substr(0, entry.find('=')); }

std::vector<std::string> merged_environment(const std::vector<std::string>& extra) {
  std::vector<std::string> merged = extra;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    bool replaced = false;
    for (const std::string& each : extra) replaced |= name_of(each) == name_of(*entry);
    if (!replaced) merged.emplace_back(*entry);
  }
  return merged;
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> list;
  for (const std::string& each : strings) list.push_back(const_cast<char*>(each.c_str()));
  list.push_back(nullptr);
  return list;
}

class FileActions {
 public:
  explicit FileActions(const SpawnOptions& options) {
    ::posix_spawn_file_actions_init(&raw_);
    redirect(options.stdin_fd, STDIN_FILENO);
    redirect(options.stdout_fd, STDOUT_FILENO);
    redirect(options.stderr_fd, STDERR_FILENO);
  }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;
  ~FileActions() { ::posix_spawn_file_actions_destroy(&raw_); }
  const posix_spawn_file_actions_t* get() const { return &raw_; }

 private:
  void redirect(int ours, int theirs) {
    if (ours >= 0) ::posix_spawn_file_actions_adddup2(&raw_, ours, theirs);
  }
  posix_spawn_file_actions_t raw_{};
};

// An inherited signal mask would make the child deaf to the signals we block.
class UnblockedSignals {
 public:
  UnblockedSignals() {
    sigset_t none;
    ::sigemptyset(&none);
    ::posix_spawnattr_init(&raw_);
    ::posix_spawnattr_setsigmask(&raw_, &none);
    ::posix_spawnattr_setflags(&raw_, POSIX_SPAWN_SETSIGMASK);
  }
  UnblockedSignals(const UnblockedSignals&) = delete;
  UnblockedSignals& operator=(const UnblockedSignals&) = delete;
  ~UnblockedSignals() { ::posix_spawnattr_destroy(&raw_); }
  const posix_spawnattr_t* get() const { return &raw_; }

 private:
  posix_spawnattr_t raw_{};
};

ExitStatus status_of(const siginfo_t& info) {
  return {.signalled = info.si_code != CLD_EXITED, .value = info.si_status};
}

Result<Duration> cpu_time_of(pid_t pid) {
  clockid_t clock{};
  const int error_number = ::clock_getcpuclockid(pid, &clock);
  timespec used{};
  if (error_number == ESRCH || (error_number == 0 && ::clock_gettime(clock, &used) != 0))
    return fail(ErrorCode::kNotFound, "process", pid);
  if (error_number != 0) return std::unexpected(Error::from_errno("clock_getcpuclockid", error_number));
  return std::chrono::seconds(used.tv_sec) + Duration(used.tv_nsec);
}

Result<std::uint64_t> rss_of(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/statm";
  YONDER_TRY(fd, Fd::open(path.c_str(), O_RDONLY));
  std::array<char, 256> text{};
  if (::read(fd.get(), text.data(), text.size() - 1) < 0) return fail_errno("read(statm)");
  unsigned long long total_pages = 0;
  unsigned long long resident_pages = 0;
  if (std::sscanf(text.data(), "%llu %llu", &total_pages, &resident_pages) != 2)
    return fail(ErrorCode::kCorrupt, "read memory use of a process", pid);
  return resident_pages * kPageBytes;
}

}  // namespace

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), pidfd_(std::move(other.pidfd_)), status_(other.status_) {}

Child& Child::operator=(Child&& other) noexcept {
  if (this != &other) {
    destroy();
    pid_ = std::exchange(other.pid_, -1);
    pidfd_ = std::move(other.pidfd_);
    status_ = other.status_;
  }
  return *this;
}

Child::~Child() { destroy(); }

void Child::destroy() {
  if (pid_ < 0 || status_) return;
  ::kill(pid_, SIGKILL);
  // SIGKILL cannot be caught, so this wait is short; the pid is ours until we
  // have taken its status.
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

Result<Child> Child::attach(pid_t pid) {
  Child child(pid, Fd(pidfd_open(pid)));  // pidfds are close-on-exec by definition.
  if (!child.pidfd_.valid()) return fail_errno("pidfd_open");
  return child;
}

Result<Child> Child::spawn(const SpawnOptions& options) {
  if (options.argv.empty()) return fail(ErrorCode::kInvalidArgument, "spawn without a program");
  const std::vector<std::string> environment = merged_environment(options.extra_environment);
  const FileActions actions(options);
  const UnblockedSignals attributes;
  pid_t pid = -1;
  const int error_number = ::posix_spawnp(&pid, options.argv[0].c_str(), actions.get(), attributes.get(),
                                          pointers(options.argv).data(), pointers(environment).data());
  if (error_number != 0) return std::unexpected(Error::from_errno("posix_spawn", error_number));
  return attach(pid);
}

Result<Child> Child::fork(const std::function<int()>& body) {
  const pid_t pid = ::fork();
  if (pid < 0) return fail_errno("fork");
  // _exit: the parent's buffers and exit handlers are not the copy's to run.
  if (pid == 0) ::_exit(body());
  return attach(pid);
}

Result<ExitStatus> Child::wait(Deadline deadline) {
  if (status_) return *status_;
  YONDER_TRY_VOID(wait_ready(pidfd_.get(), Ready::kReadable, deadline));
  siginfo_t info{};
  while (::waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED) != 0) {
    if (errno != EINTR) return fail_errno("waitid");
  }
  status_ = status_of(info);
  return *status_;
}

Result<void> Child::kill(int signal) const {
  if (status_ || pidfd_send_signal(pidfd_.get(), signal) == 0 || errno == ESRCH) return {};
  return fail_errno("pidfd_send_signal");
}

Result<ProcessUsage> usage_of(pid_t pid) {
  YONDER_TRY(cpu_time, cpu_time_of(pid));
  YONDER_TRY(rss_bytes, rss_of(pid));
  return ProcessUsage{.rss_bytes = rss_bytes, .cpu_time = cpu_time};
}

}  // namespace yonder::os
