// What it costs that a node's memory outlives its process.
#include <fmt/format.h>

#include <memory>
#include <vector>

#include "bench/objects/heap_bench.h"
#include "yonder/node/heap.h"
#include "yonder/node/memory_keeper.h"
#include "yonder/os/steady_clock.h"

namespace yonder::bench {
namespace {

using node::Heap;
using node::HeapThread;
using node::MemoryKeeper;
using node::ObjectPtr;

const os::SteadyClock kClock;

double seconds() { return static_cast<double>(kClock.now().ns()) * 1e-9; }

Result<std::unique_ptr<Heap>> make_heap(MemoryKeeper* keeper, std::uint64_t bytes) {
  return Heap::create(kClock, {.limit = Bytes(bytes * 5 / 4 + (64u << 20)), .seed = 1, .keeper = keeper});
}

// Seconds of `count` calls of `once(HeapThread&)`.
template <typename Once>
double time_of(std::uint64_t count, HeapThread& thread, Once&& once) {
  const double start = seconds();
  for (std::uint64_t i = 0; i < count; ++i) once(thread);
  return seconds() - start;
}

Result<void> measure_journal(const KeeperOptions& options, Report& report) {
  MemoryKeeper keeper;
  YONDER_TRY(kept, make_heap(&keeper, 0));
  YONDER_TRY(plain, make_heap(nullptr, 0));
  YONDER_TRY(kept_thread, kept->register_thread());
  YONDER_TRY(plain_thread, plain->register_thread());
  bool failed = false;
  const auto pair = [&](HeapThread& thread) {
    const auto made = thread.alloc(64);
    failed |= !made || !thread.free(*made);
  };
  report.ratio("journal_alloc_free_vs_plain",
               compare(
                   options.rounds, [&] { return time_of(options.operations, kept_thread, pair); },
                   [&] { return time_of(options.operations, plain_thread, pair); }));
  for (const std::uint32_t bytes : {64u, 2048u}) {
    const std::vector<std::byte> data(bytes, std::byte{1});
    YONDER_TRY(kept_object, kept_thread.alloc(bytes));
    YONDER_TRY(plain_object, plain_thread.alloc(bytes));
    const auto write = [&](ObjectPtr& object) {
      return [&](HeapThread& thread) { failed |= !thread.write(object, data); };
    };
    report.ratio(
        fmt::format("journal_write_vs_plain_{}", bytes),
        compare(
            options.rounds, [&] { return time_of(options.operations, kept_thread, write(kept_object)); },
            [&] { return time_of(options.operations, plain_thread, write(plain_object)); }));
  }
  if (failed) return fail(ErrorCode::kCorrupt, "an operation of the benchmark failed");
  return {};
}

Result<void> measure_adoption(const KeeperOptions& options, std::uint32_t bytes, Report& report) {
  MemoryKeeper keeper;
  std::uint64_t objects = 0;
  std::uint64_t active = 0;
  {
    YONDER_TRY(heap, make_heap(&keeper, options.heap_bytes));
    YONDER_TRY(thread, heap->register_thread());
    const auto& shape = heap->classes()[heap->classes().class_for(bytes)];
    objects = options.heap_bytes / shape.slot_bytes;
    const std::vector<std::byte> data(bytes, std::byte{1});
    for (std::uint64_t i = 0; i < objects; ++i) {
      YONDER_TRY(object, thread.alloc(bytes));
      YONDER_TRY_VOID(thread.write(object, data));
    }
    active = heap->stats().active_bytes;
  }
  std::vector<double> ms_per_gib;
  for (int round = 0; round < options.rounds; ++round) {
    const double start = seconds();
    YONDER_TRY(heap, make_heap(&keeper, options.heap_bytes));
    const double took = seconds() - start;
    if (!heap->adoption() || heap->adoption()->objects != objects) {
      return fail(ErrorCode::kCorrupt, "the benchmark's heap did not find its objects");
    }
    ms_per_gib.push_back(took * 1e3 * static_cast<double>(std::uint64_t{1} << 30) /
                         static_cast<double>(active));
  }
  report.result(fmt::format("adoption_ms_per_gib_{}", bytes), median(ms_per_gib));
  return {};
}

}  // namespace

Result<void> measure_keeper(const KeeperOptions& options, Report& report) {
  YONDER_TRY_VOID(measure_journal(options, report));
  for (const std::uint32_t bytes : {64u, 2048u}) YONDER_TRY_VOID(measure_adoption(options, bytes, report));
  return {};
}

}  // namespace yonder::bench
