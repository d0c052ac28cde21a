#include "bench/heap/swap.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <string_view>

#include "yonder/os/steady_clock.h"

namespace yonder::bench::heap {
namespace {

// $1: bytes that the group may keep; $2: MiB of the device. zram, because it is the fastest device
// in RAM that the kernel has (writes are synchronous; a loop device over tmpfs takes three times as
// long, and its writers fall behind until the group is out of memory). page-cluster 0: one page for
// one fault, as far memory over RDMA does it and as is best for random faults.
constexpr const char* kScript = R"(
exec 2>/dev/null
group=/sys/fs/cgroup/memory/yonder-bench-$$
cluster=$(cat /proc/sys/vm/page-cluster)
number=$(cat /sys/class/zram-control/hot_add) || exit 1
undo() {
  swapoff "/dev/zram$number"
  echo "$number" > /sys/class/zram-control/hot_remove
  rmdir "$group"
  echo "$cluster" > /proc/sys/vm/page-cluster
}
trap undo EXIT
trap 'exit 1' INT TERM HUP
mkdir "$group" && echo "$1" > "$group/memory.limit_in_bytes" &&
  echo lz4 > "/sys/block/zram$number/comp_algorithm" &&
  echo "$2M" > "/sys/block/zram$number/disksize" &&
  mkswap "/dev/zram$number" > /dev/null && swapon "/dev/zram$number" &&
  echo 0 > /proc/sys/vm/page-cluster || exit 1
echo "$group"
cat > /dev/null
)";

Result<std::pair<os::Fd, os::Fd>> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail(ErrorCode::kOsError, "heap bench: pipe", errno);
  return std::pair(os::Fd(ends[0]), os::Fd(ends[1]));
}

}  // namespace

Result<SwapBed> SwapBed::create(const SwapOptions& options) {
  YONDER_TRY(input, make_pipe());
  YONDER_TRY(output, make_pipe());
  YONDER_TRY(shell,
             os::Child::spawn({.argv = {"sh", "-c", kScript, "sh", std::to_string(options.limit.count()),
                                        std::to_string((options.device.count() >> 20) + 1)},
                               .stdin_fd = input.first.get(),
                               .stdout_fd = output.second.get()}));
  input.first.reset();
  output.second.reset();
  SwapBed bed(std::move(shell), std::move(input.second), "");
  std::array<char, 256> text{};
  const ssize_t got = ::read(output.first.get(), text.data(), text.size());
  if (got <= 1) return fail(ErrorCode::kUnsupported, "heap bench: no swap device, or not root");
  bed.group_ = std::string(text.data(), static_cast<std::size_t>(got - 1));
  return bed;
}

SwapBed::~SwapBed() {
  if (!stop_.valid()) return;
  stop_.reset();
  // Taking a device out of use reads back what is still on it.
  (void)shell_.wait(Deadline::at(os::SteadyClock::read() + std::chrono::seconds(60)));
}

bool SwapBed::join() const {
  const auto file = os::Fd::open((group_ + "/cgroup.procs").c_str(), O_WRONLY);
  if (!file) return false;
  const std::string pid = std::to_string(::getpid());
  return ::write(file->get(), pid.data(), pid.size()) == static_cast<ssize_t>(pid.size());
}

std::vector<std::string> SwapBed::caged(const std::vector<std::string>& command) const {
  std::vector<std::string> whole = {"sh", "-c", "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"", group_};
  whole.insert(whole.end(), command.begin(), command.end());
  return whole;
}

}  // namespace yonder::bench::heap
