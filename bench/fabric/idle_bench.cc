#include "bench/fabric/idle_bench.h"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <thread>
#include <vector>

#include "bench/fabric/connection.h"
#include "bench/harness/heap_counter.h"
#include "bench/harness/target_process.h"
#include "yonder/os/steady_clock.h"

namespace yonder::bench {
namespace {

ServeOptions both_providers() {
  return {.addresses = {fmt::format("shm:yonder-bench-{}", ::getpid()), "tcp://127.0.0.1:0"},
          .memory = Bytes(16 << 20)};
}

double cpu_seconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

Result<double> cpu_seconds_of(pid_t pid) {
  YONDER_TRY(usage, os::usage_of(pid));
  return std::chrono::duration<double>(usage.cpu_time).count();
}

// Every kind of one-sided operation once on each connection.
Result<void> touch(std::vector<Connection>& connections) {
  std::array<std::byte, 64> buffer{};
  const fabric::LocalPiece piece = fabric::LocalPiece::of(std::span<const std::byte>(buffer));
  for (Connection& connection : connections) {
    YONDER_TRY_VOID(connection.endpoint->read(piece, connection.memory.at(64)).wait());
    YONDER_TRY_VOID(connection.endpoint->write(piece, connection.memory.at(128)).wait());
    YONDER_TRY_VOID(connection.endpoint->fetch_add(connection.memory.at(0), 1).wait());
  }
  return {};
}

}  // namespace

Result<IdleUse> measure_idle(const std::string& program, double seconds) {
  YONDER_TRY(target, TargetProcess::start(program, both_providers()));
  YONDER_TRY(connections, connect_all(target.addresses()));
  YONDER_TRY_VOID(touch(connections));
  const os::SteadyClock clock;
  const Deadline end =
      Deadline::after(clock, std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds)));
  YONDER_TRY(target_before, cpu_seconds_of(target.pid()));
  const double client_before = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
  {
    std::vector<std::jthread> waiters;
    for (Connection& connection : connections) {
      waiters.emplace_back([&connection, end] { (void)connection.queue->wait(end); });
    }
  }
  const double client_used = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - client_before;
  YONDER_TRY(target_after, cpu_seconds_of(target.pid()));
  return IdleUse{.target_cpu_percent = 100 * (target_after - target_before) / seconds,
                 .client_cpu_percent = 100 * client_used / seconds};
}

Result<double> measure_heap_allocations(const std::string& program, int operations) {
  YONDER_TRY(target, TargetProcess::start(program, both_providers()));
  YONDER_TRY(connections, connect_all(target.addresses()));
  for (int i = 0; i < operations / 10 + 1; ++i) YONDER_TRY_VOID(touch(connections));
  const std::uint64_t before = HeapCounter::allocations();
  for (int i = 0; i < operations; ++i) YONDER_TRY_VOID(touch(connections));
  const double per_touch = static_cast<double>(HeapCounter::allocations() - before) / operations;
  return per_touch / (3.0 * static_cast<double>(connections.size()));
}

}  // namespace yonder::bench
