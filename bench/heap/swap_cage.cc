#include "bench/heap/swap_cage.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/loop.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

#include "yonder/os/fd.h"

namespace yonder::bench {
namespace {

constexpr const char* kGroups = "/sys/fs/cgroup/memory";
constexpr const char* kCluster = "/proc/sys/vm/page-cluster";

Result<void> write_to(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text << std::flush;
  if (!file) return fail(ErrorCode::kUnsupported, "kernel swap as a baseline: a setting is refused");
  return {};
}

// A cgroup's directory can be removed a moment after its last process has ended.
void remove_group(const std::string& group) {
  for (int i = 0; i < 200 && ::rmdir(group.c_str()) != 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

// The first page of a swap area, as mkswap writes it: version, last page, and the mark.
Result<void> format_swap(const os::Fd& file, std::uint64_t bytes) {
  constexpr std::size_t kPage = 4096;
  std::array<char, kPage> page{};
  const std::uint32_t version = 1;
  const auto last_page = static_cast<std::uint32_t>(bytes / kPage - 1);
  std::memcpy(page.data() + 1024, &version, sizeof version);
  std::memcpy(page.data() + 1028, &last_page, sizeof last_page);
  std::memcpy(page.data() + kPage - 10, "SWAPSPACE2", 10);
  // The whole file has its memory before anybody is measured.
  if (::posix_fallocate(file.get(), 0, static_cast<off_t>(bytes)) != 0)
    return fail(ErrorCode::kOutOfMemory, "swap file");
  if (::pwrite(file.get(), page.data(), page.size(), 0) != static_cast<ssize_t>(kPage))
    return fail_errno("write swap file");
  return {};
}

Result<std::string> attach_loop(const os::Fd& file) {
  YONDER_TRY(control, os::Fd::open("/dev/loop-control", O_RDWR));
  const int number = ::ioctl(control.get(), LOOP_CTL_GET_FREE);
  if (number < 0) return fail_errno("ioctl(LOOP_CTL_GET_FREE)");
  std::string device = fmt::format("/dev/loop{}", number);
  YONDER_TRY(loop, os::Fd::open(device.c_str(), O_RDWR));
  if (::ioctl(loop.get(), LOOP_SET_FD, file.get()) != 0) return fail_errno("ioctl(LOOP_SET_FD)");
  return device;
}

void detach_loop(const std::string& device) {
  if (const auto loop = os::Fd::open(device.c_str(), O_RDWR); loop) ::ioctl(loop->get(), LOOP_CLR_FD, 0);
}

}  // namespace

Result<std::unique_ptr<SwapCage>> SwapCage::create(Bytes limit, Bytes swap) {
  std::unique_ptr<SwapCage> cage(new SwapCage);
  YONDER_TRY_VOID(cage->set_up(limit, swap));
  return cage;
}

Result<void> SwapCage::set_up(Bytes limit, Bytes swap) {
  group_ = fmt::format("{}/yonder-bench-{}", kGroups, ::getpid());
  if (::mkdir(group_.c_str(), 0755) != 0) return fail(ErrorCode::kUnsupported, "a memory cgroup (v1)", errno);
  undo_.emplace_back([group = group_] { remove_group(group); });
  YONDER_TRY_VOID(write_to(group_ + "/memory.limit_in_bytes", std::to_string(limit.count())));

  std::string folder = "/tmp/yonder-swap-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) return fail_errno("mkdtemp");
  undo_.emplace_back([folder] { ::rmdir(folder.c_str()); });
  // noswap (Linux 6.4): else the kernel may put pages of the swap file itself into the swap
  // file, and whoever wants one of them back waits for ever, unkillable.
  const std::string size = fmt::format("noswap,size={}", swap.count() + (16 << 20));
  if (::mount("none", folder.c_str(), "tmpfs", 0, size.c_str()) != 0) return fail_errno("mount(tmpfs)");
  undo_.emplace_back([folder] { ::umount(folder.c_str()); });
  os::Fd file(::open((folder + "/swap").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.valid()) return fail_errno("open swap file");
  YONDER_TRY_VOID(format_swap(file, swap.count()));
  YONDER_TRY(device, attach_loop(file));
  undo_.emplace_back([device] { detach_loop(device); });
  if (::swapon(device.c_str(), 0) != 0) return fail_errno("swapon");
  undo_.emplace_back([device] { ::swapoff(device.c_str()); });

  // One page per fault: reading ahead on random accesses only costs.
  std::string cluster;
  std::ifstream(kCluster) >> cluster;
  YONDER_TRY_VOID(write_to(kCluster, "0"));
  undo_.emplace_back([cluster] { (void)write_to(kCluster, cluster); });
  return {};
}

SwapCage::~SwapCage() {
  while (!undo_.empty()) {
    undo_.back()();
    undo_.pop_back();
  }
}

std::vector<std::string> SwapCage::caged(const std::vector<std::string>& command) const {
  std::vector<std::string> out = {"sh", "-c", fmt::format("echo $$ > {}/cgroup.procs && exec \"$@\"", group_),
                                  "sh"};
  out.insert(out.end(), command.begin(), command.end());
  return out;
}

}  // namespace yonder::bench
