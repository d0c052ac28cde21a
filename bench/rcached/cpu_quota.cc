#include "bench/rcached/cpu_quota.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace yonder::bench {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGroups = "/sys/fs/cgroup/cpu";
constexpr const char* kPrefix = "yonder-quota-";
constexpr int kQuotaUs = 1000;  // Of each period: the kernel's least, so that pauses are short.

bool write(const fs::path& file, const std::string& text) {
  std::ofstream out(file);
  out << text;
  return static_cast<bool>(out.flush());
}

void remove_left_behind() {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(kGroups, ignored))
    if (entry.path().filename().string().starts_with(kPrefix)) ::rmdir(entry.path().c_str());
}

}  // namespace

Result<CpuQuota> CpuQuota::create(const std::string& name, double share) {
  remove_left_behind();
  const fs::path group = fs::path(kGroups) / fmt::format("{}{}-{}", kPrefix, ::getpid(), name);
  if (!fs::exists(fs::path(kGroups) / "cpu.cfs_quota_us"))
    return fail(ErrorCode::kUnsupported, "limit threads: needs the cpu controller of cgroup v1");
  std::error_code error;
  fs::create_directory(group, error);
  if (error) return fail(ErrorCode::kUnsupported, "make a cgroup: needs root", error.value());
  CpuQuota quota(group.string());
  if (!write(group / "cpu.cfs_period_us", std::to_string(static_cast<int>(kQuotaUs / share))) ||
      !write(group / "cpu.cfs_quota_us", std::to_string(kQuotaUs)))
    return fail(ErrorCode::kUnsupported, "limit the threads of a cgroup");
  return quota;
}

CpuQuota::~CpuQuota() {
  if (group_.empty()) return;
  std::ifstream tasks(fs::path(group_) / "tasks");
  for (std::string thread; std::getline(tasks, thread);)
    (void)write(fs::path(kGroups) / "tasks", thread);  // Or it has ended.
  ::rmdir(group_.c_str());
}

Result<void> CpuQuota::take_threads(pid_t process, std::string_view name) {
  bool is_found = false;
  std::error_code error;
  for (const fs::directory_entry& thread :
       fs::directory_iterator(fmt::format("/proc/{}/task", process), error)) {
    std::string called;
    std::getline(std::ifstream(thread.path() / "comm"), called);
    if (called != name) continue;
    is_found = true;
    if (!write(fs::path(group_) / "tasks", thread.path().filename().string()))
      return fail(ErrorCode::kUnsupported, "put a thread into a cgroup");
  }
  if (!is_found) return fail(ErrorCode::kNotFound, "threads with a name", process);
  return {};
}

}  // namespace yonder::bench
