#include "yonder/os/tsc_clock.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

#include "yonder/os/fd.h"
#include "yonder/os/steady_clock.h"

namespace yonder::os {
namespace {

#if defined(__x86_64__)
std::uint64_t read_ticks() { return __rdtsc(); }

bool counter_is_invariant() {
  constexpr unsigned kPowerLeaf = 0x80000007;
  constexpr unsigned kInvariantTsc = 1u << 8;  // In EDX.
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(kPowerLeaf, &eax, &ebx, &ecx, &edx) != 0 && (edx & kInvariantTsc) != 0;
}
#else
std::uint64_t read_ticks() { return 0; }
bool counter_is_invariant() { return false; }
#endif

bool kernel_trusts_counter() {
  const Result<Fd> file =
      Fd::open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY);
  std::array<char, 16> text{};
  return file && ::read(file->get(), text.data(), text.size()) > 0 &&
         std::string_view(text.data()).starts_with("tsc\n");
}

struct Reading {
  std::uint64_t ticks;
  Instant time;
};

// Both clocks at one moment: of a few tries the one with the least time between
// its two counter reads, because the others were interrupted.
Reading read_both() {
  Reading best{};
  std::uint64_t least = ~std::uint64_t{0};
  for (int i = 0; i < 8; ++i) {
    const std::uint64_t before = read_ticks();
    const Instant time = SteadyClock::read();
    const std::uint64_t after = read_ticks();
    if (after - before >= least) continue;
    least = after - before;
    best = {.ticks = before + least / 2, .time = time};
  }
  return best;
}

}  // namespace

TscClock::TscClock(Duration calibration) {
  if (!counter_is_invariant() || !kernel_trusts_counter()) return;
  const Reading first = read_both();
  const timespec pause{.tv_sec = calibration.count() / 1'000'000'000,
                       .tv_nsec = calibration.count() % 1'000'000'000};
  ::nanosleep(&pause, nullptr);
  const Reading last = read_both();
  const auto elapsed_ns = static_cast<std::uint64_t>((last.time - first.time).count());
  const std::uint64_t ticks = std::max<std::uint64_t>(last.ticks - first.ticks, 1);
  __extension__ using Wide = unsigned __int128;
  ns_per_tick_scaled_ = static_cast<std::uint64_t>((Wide{elapsed_ns} << kScaleBits) / ticks);
  start_ticks_ = last.ticks;
  start_ = last.time;
}

Instant TscClock::now() const {
  if (!uses_tsc()) return SteadyClock::read();
  __extension__ using Wide = unsigned __int128;
  const std::uint64_t ticks = read_ticks() - start_ticks_;
  return start_ + Duration(static_cast<std::int64_t>((Wide{ticks} * ns_per_tick_scaled_) >> kScaleBits));
}

}  // namespace yonder::os
