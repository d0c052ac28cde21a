#include "bench/heap/swap.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "yonder/os/steady_clock.h"

namespace yonder::bench::heap {
namespace {

// $1: bytes that the group may keep; $2: MiB of the device. zram, because it is the fastest device
// in RAM that the kernel has (writes are synchronous; a loop device over tmpfs takes three times as
// long, and its writers fall behind until the group is out of memory). page-cluster 0: one page for
// one fault, as far memory over RDMA does it and as is best for random faults.
//
// What is to be undone is written down first, under the shell's number: if even the shell is
// killed, the next one does it.
constexpr const char* kScript = R"(
exec 2>/dev/null
notes=/run/yonder-swap
groups=/sys/fs/cgroup/memory/yonder-swap
undo() {
  read -r number cluster < "$notes-$1" || return
  for process in $(cat "$groups-$1/cgroup.procs"); do kill -9 "$process"; done
  swapoff "/dev/zram$number"
  echo "$number" > /sys/class/zram-control/hot_remove
  rmdir "$groups-$1" || { sleep 0.2; rmdir "$groups-$1"; }
  echo "$cluster" > /proc/sys/vm/page-cluster
  rm -f "$notes-$1"
}
for note in "$notes"-*; do
  shell=${note##*-}
  [ -e "$note" ] && [ ! -d "/proc/$shell" ] && undo "$shell"
done
group=$groups-$$
cluster=$(cat /proc/sys/vm/page-cluster)
number=$(cat /sys/class/zram-control/hot_add) || exit 1
echo "$number $cluster" > "$notes-$$" || exit 1
trap 'undo $$' EXIT
trap 'exit 1' INT TERM HUP
mkdir "$group" && echo 1 > "$group/memory.oom_control" && echo "$1" > "$group/memory.limit_in_bytes" &&
  echo lz4 > "/sys/block/zram$number/comp_algorithm" &&
  echo "$2M" > "/sys/block/zram$number/disksize" &&
  mkswap "/dev/zram$number" > /dev/null && swapon "/dev/zram$number" &&
  echo 0 > /proc/sys/vm/page-cluster || exit 1
echo "$group"
cat > /dev/null
)";

// ---------------------------------------------------------------- the minder

constexpr int kMindMs = 5;
constexpr std::uint64_t kMoreBytes = 256 << 10;

void write_number(const std::string& file, std::uint64_t number) {
  const auto to = os::Fd::open(file.c_str(), O_WRONLY);
  const std::string text = std::to_string(number);
  if (to) (void)!::write(to->get(), text.data(), text.size());
}

// Until the other end of `stop` is closed.
int mind(const std::string& group, std::uint64_t limit, const os::Fd& stop) {
  const auto statistics = os::Fd::open((group + "/memory.stat").c_str(), O_RDONLY);
  const auto trouble = os::Fd::open((group + "/memory.oom_control").c_str(), O_RDONLY);
  if (!statistics || !trouble) return 1;
  std::array<char, 8192> text;
  pollfd end{.fd = stop.get(), .events = POLLIN, .revents = 0};
  while (::poll(&end, 1, kMindMs) == 0) {
    (void)!::pread(statistics->get(), text.data(), text.size(), 0);
    const ssize_t length = ::pread(trouble->get(), text.data(), text.size(), 0);
    const std::string_view says(text.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
    if (says.find("under_oom 1") == std::string_view::npos) continue;
    write_number(group + "/memory.limit_in_bytes", limit + kMoreBytes);
    write_number(group + "/memory.limit_in_bytes", limit);
  }
  return 0;
}

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
  YONDER_TRY(ends, make_pipe());
  bed.stop_minder_ = std::move(ends.second);
  YONDER_TRY(minder, os::Child::fork([&] {
               // Or it would wait for itself, and the shell for it.
               bed.stop_minder_.reset();
               bed.stop_.reset();
               return mind(bed.group_, options.limit.count(), ends.first);
             }));
  bed.minder_.emplace(std::move(minder));
  return bed;
}

SwapBed::~SwapBed() {
  if (!stop_.valid()) return;
  stop_minder_.reset();
  if (minder_) (void)minder_->wait(Deadline::at(os::SteadyClock::read() + std::chrono::seconds(10)));
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
