#include "bench/heap/run.h"

#include <fmt/format.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>

#include "bench/heap/memory.h"
#include "yonder/heap/paged_space.h"
#include "yonder/heap/slot_store.h"
#include "yonder/os/mapping.h"
#include "yonder/os/process.h"
#include "yonder/os/steady_clock.h"

namespace yonder::bench::heap {
namespace {

// The counters that count from the beginning, without those before `begin`.
far::HeapStats since(far::HeapStats now, const far::HeapStats& begin) {
  using Counter = std::uint64_t far::HeapStats::*;
  for (const Counter counter :
       {&far::HeapStats::page_ins, &far::HeapStats::object_ins, &far::HeapStats::bytes_in,
        &far::HeapStats::bytes_wanted, &far::HeapStats::read_ahead, &far::HeapStats::read_ahead_used,
        &far::HeapStats::objects_ahead, &far::HeapStats::objects_ahead_used, &far::HeapStats::pages_written,
        &far::HeapStats::pages_dropped, &far::HeapStats::objects_written, &far::HeapStats::flips_to_page,
        &far::HeapStats::flips_to_object, &far::HeapStats::evacuated_pages, &far::HeapStats::healed,
        &far::HeapStats::stalls, &far::HeapStats::egress_ns})
    now.*counter -= begin.*counter;
  return now;
}

far::Mode mode_of(MemoryKind kind) {
  if (kind == MemoryKind::kPaging) return far::Mode::kPaging;
  return kind == MemoryKind::kObject ? far::Mode::kObject : far::Mode::kHybrid;
}

far::HeapOptions heap_options(const RunOptions& options) {
  const Bytes far_bytes = far_bytes_of(options);
  const Bytes local = options.local.count() == 0 ? far_bytes : options.local;
  return {.local = local,
          .max_local = local,
          .far = far_bytes,
          .node = options.node,
          .link = options.link,
          .mode = mode_of(options.memory),
          .read_ahead = options.read_ahead,
          .lanes = std::max(4u, options.work.threads + 1)};
}

std::uint64_t far_bytes_in_use(const far::HeapStats& stats) { return stats.live_pages * far::kPageBytes; }

// What the objects take when garbage is gone: the heap's background frees empty pages a few at a
// time, so it is given a moment.
std::uint64_t compact_bytes(far::Heap& heap) {
  heap.evacuate();
  std::uint64_t bytes = far_bytes_in_use(heap.stats());
  for (int round = 0; round < 100; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(25));
    const std::uint64_t now = far_bytes_in_use(heap.stats());
    if (now == bytes) break;
    bytes = now;
  }
  return bytes;
}

// Ends the child: to free millions of far objects one by one would take longer than the run.
[[noreturn]] void leave_with(const Measured& measured, RunResult& result) {
  result.operations = measured.operations;
  result.operations_per_s = static_cast<double>(measured.operations) / measured.seconds;
  result.checksum = measured.checksum;
  result.wrong_objects = measured.wrong_objects;
  result.p50_ns = measured.latency_ns.percentile(50);
  result.p90_ns = measured.latency_ns.percentile(90);
  result.p99_ns = measured.latency_ns.percentile(99);
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  result.peak_rss_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) << 10;
  ::_exit(0);
}

int run_far(const RunOptions& options, RunResult& result) {
  auto made = far::Heap::create(heap_options(options));
  if (!made) {
    fmt::print(stderr, "heap bench: {}\n", made.error().to_string());
    return 1;
  }
  far::Heap& heap = **made;
  if (options.warm) options.workload->far(options.work);
  far::HeapStats begin;
  Work work = options.work;
  work.on_measure = [&] { begin = heap.stats(); };
  work.on_end = [&](const Measured& measured) {
    const far::HeapStats end = heap.stats();
    result.stats = since(end, begin);
    result.far_bytes = std::max(far_bytes_in_use(begin), far_bytes_in_use(end));
    result.metadata_bytes = end.metadata_bytes;
    // Asked of a run on all local memory only, to divide it.
    if (options.local.count() == 0) result.working_set_bytes = compact_bytes(heap);
    leave_with(measured, result);
  };
  options.workload->far(work);
  return 1;  // A workload that does not say what it measured.
}

int run_plain(const RunOptions& options, RunResult& result) {
  if (options.warm) {
    ::mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());  // It keeps what it has touched.
    options.workload->plain(options.work);
  }
  Work work = options.work;
  work.on_end = [&](const Measured& measured) { leave_with(measured, result); };
  options.workload->plain(work);
  return 1;
}

// What `yonder run` does for a program: plain pointers, page faults, the same far side.
Result<void> run_on_faults(const RunOptions& options, RunResult& result) {
  const Bytes bytes(options.work.bytes * 2 + (std::uint64_t{64} << 20));
  YONDER_TRY(store, far::SlotStore::open({.node = options.node, .link = options.link, .bytes = bytes}));
  YONDER_TRY(space, far::PagedSpace::create({.bytes = bytes, .budget = options.local}, std::move(store)));
  YONDER_TRY(arena, far::PagedArena::create(*space));
  FaultedMemory::arena = arena.get();
  Work work = options.work;
  work.on_end = [&](const Measured& measured) { leave_with(measured, result); };
  options.workload->faulted(work);
  return fail(ErrorCode::kClosed, "heap bench: the workload did not say what it measured");
}

int run_faulted(const RunOptions& options, RunResult& result) {
  const Result<void> ran = run_on_faults(options, result);
  fmt::print(stderr, "heap bench: {}\n", ran.error().to_string());
  return 1;
}

int run_here(const RunOptions& options, RunResult& result) {
  if (options.in_child && !options.in_child()) return 1;
  if (options.memory == MemoryKind::kPlain) return run_plain(options, result);
  if (options.memory == MemoryKind::kFaulted) return run_faulted(options, result);
  return run_far(options, result);
}

}  // namespace

const char* name_of(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kHybrid:
      return "hybrid";
    case MemoryKind::kPaging:
      return "paging";
    case MemoryKind::kObject:
      return "object";
    case MemoryKind::kFaulted:
      return "faults";
    case MemoryKind::kPlain:
      break;
  }
  return "plain";
}

Bytes far_bytes_of(const RunOptions& options) {
  // Pages whose objects came in one by one stay on the node until the last of them did: most
  // have little in them, and there are several times as many as full ones would be.
  const std::uint64_t times = options.local.count() == 0 ? 2 : 6;
  return Bytes(options.work.bytes * times + (std::uint64_t{64} << 20));
}

namespace {

// Runs `body`, which leaves a T in memory that we share with it.
template <typename T>
Result<T> value_from_child(const std::function<int(T&)>& body, Duration timeout) {
  static_assert(std::is_trivially_copyable_v<T>, "it is written by one process and read by another");
  YONDER_TRY(shared, os::Mapping::anonymous({.bytes = sizeof(T), .shared = true}));
  auto* const value = new (shared.data()) T{};
  YONDER_TRY(child, os::Child::fork([&] {
               // Goes with a parent that is killed: else it would disturb what is measured next.
               (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
               return body(*value);
             }));
  YONDER_TRY(status, child.wait(Deadline::at(os::SteadyClock::read() + timeout)));
  if (!status.success()) return fail(ErrorCode::kClosed, "heap bench: a run ended badly", status.value);
  return *value;
}

}  // namespace

Result<RunResult> run_in_child(const RunOptions& options) {
  return value_from_child<RunResult>([&](RunResult& result) { return run_here(options, result); },
                                     options.timeout);
}

namespace {

template <typename T>
Result<T> measured_in_child(const std::function<Result<T>()>& measure, Duration timeout) {
  return value_from_child<T>(
      [&](T& value) {
        const Result<T> measured = measure();
        if (!measured) {
          fmt::print(stderr, "heap bench: {}\n", measured.error().to_string());
          return 1;
        }
        value = *measured;
        return 0;
      },
      timeout);
}

}  // namespace

Result<double> measure_in_child(const std::function<Result<double>()>& measure, Duration timeout) {
  return measured_in_child<double>(measure, timeout);
}

Result<Figure> figure_in_child(const std::function<Result<Figure>()>& measure, Duration timeout) {
  return measured_in_child<Figure>(measure, timeout);
}

}  // namespace yonder::bench::heap
