#include "bench/objects/heap_bench.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "bench/objects/jemalloc.h"
#include "yonder/base/prng.h"
#include "yonder/node/block_table.h"
#include "yonder/node/heap.h"
#include "yonder/os/steady_clock.h"

namespace yonder::bench {
namespace {

using node::Heap;
using node::HeapThread;
using node::ObjectPtr;

const os::SteadyClock kClock;

// Time this thread has run: nothing here waits, and other programs of the machine
// should not count.
double cpu_seconds() {
  timespec ts{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
  return static_cast<double>(ts.tv_sec) + static_cast<double>(ts.tv_nsec) * 1e-9;
}

// Keeps the compiler from leaving out work whose result nobody uses.
void keep(const void* pointer) { asm volatile("" : : "r"(pointer) : "memory"); }

// What every object of the read benchmark begins with.
struct Link {
  ObjectPtr next;
  const std::byte* next_address = nullptr;
};

const std::byte* payload_address(const Heap& heap, ObjectPtr object) {
  const auto entry = heap.blocks().lookup(object.home());
  const auto& shape = heap.classes()[object.size_class()];
  return heap.frames().address(entry.frame()) + std::uint64_t{object.slot()} * shape.slot_bytes +
         node::kHeaderBytes;
}

// Objects in one random cycle (Sattolo), so that every read depends on the last.
Result<void> link_objects(Heap& heap, HeapThread& thread, std::vector<ObjectPtr>& objects, Prng& random) {
  for (std::size_t i = objects.size(); i-- > 1;) std::swap(objects[i], objects[random.below(i)]);
  for (std::size_t i = 0; i < objects.size(); ++i) {
    const ObjectPtr next = objects[(i + 1) % objects.size()];
    const Link link{.next = next, .next_address = payload_address(heap, next)};
    YONDER_TRY_VOID(thread.write(objects[i], std::as_bytes(std::span(&link, 1))));
  }
  return {};
}

}  // namespace

Result<void> measure_heap_reads(const HeapReadOptions& options, Report& report) {
  YONDER_TRY(heap,
             Heap::create(kClock, {.limit = Bytes(options.heap_bytes * 5 / 4 + (64u << 20)), .seed = 1}));
  YONDER_TRY(thread, heap->register_thread());
  const auto& shape = heap->classes()[heap->classes().class_for(options.object_bytes)];
  std::vector<ObjectPtr> objects(options.heap_bytes / shape.slot_bytes);
  for (ObjectPtr& object : objects) {
    YONDER_TRY(made, thread.alloc(options.object_bytes));
    object = made;
  }
  Prng random(options.seed);
  YONDER_TRY_VOID(link_objects(*heap, thread, objects, random));

  std::vector<std::byte> buffer(options.object_bytes);
  Link link{.next = objects[0], .next_address = payload_address(*heap, objects[0])};
  std::vector<double> ours_ns;
  std::vector<double> memcpy_ns;
  bool failed = false;
  const auto ours = [&] {
    const double start = cpu_seconds();
    for (std::uint64_t i = 0; i < options.reads; ++i) {
      failed |= !thread.read(link.next, buffer);
      std::memcpy(&link, buffer.data(), sizeof link);
    }
    ours_ns.push_back((cpu_seconds() - start) * 1e9 / static_cast<double>(options.reads));
    return 1 / ours_ns.back();
  };
  const auto baseline = [&] {
    const double start = cpu_seconds();
    for (std::uint64_t i = 0; i < options.reads; ++i) {
      std::memcpy(buffer.data(), link.next_address, buffer.size());
      keep(buffer.data());
      std::memcpy(&link, buffer.data(), sizeof link);
    }
    memcpy_ns.push_back((cpu_seconds() - start) * 1e9 / static_cast<double>(options.reads));
    return 1 / memcpy_ns.back();
  };
  const auto ratios = compare(options.rounds, ours, baseline);
  if (failed) return fail(ErrorCode::kCorrupt, "a read of the benchmark failed");
  const std::string name = fmt::format("read_{}", options.object_bytes);
  report.ratio(name + "_against_memcpy", ratios);
  report.result(name + "_ns", median(ours_ns));
  report.result(name + "_memcpy_ns", median(memcpy_ns));
  return {};
}

Result<void> measure_heap_alloc(const HeapAllocOptions& options, Report& report) {
  YONDER_TRY(heap, Heap::create(kClock, {.seed = 1}));
  YONDER_TRY(thread, heap->register_thread());
  std::vector<ObjectPtr> objects(options.live);
  for (ObjectPtr& object : objects) {
    YONDER_TRY(made, thread.alloc(options.object_bytes));
    object = made;
  }
  const Jemalloc jemalloc = Jemalloc::load();
  std::vector<void*> blocks(options.live, nullptr);
  bool failed = false;
  std::vector<double> ours_ns;
  std::vector<double> jemalloc_ns;
  // `once(at)` exchanges the object `at` for a new one, or makes and frees one.
  const auto time_pairs = [&](auto&& once, std::vector<double>& pair_ns) {
    const double start = cpu_seconds();
    for (std::uint64_t i = 0, at = 0; i < options.pairs; ++i, at = at + 1 >= options.live ? 0 : at + 1)
      once(at);
    pair_ns.push_back((cpu_seconds() - start) * 1e9 / static_cast<double>(options.pairs));
    return pair_ns.back();
  };
  const auto ours = [&] {
    if (options.live == 0) {
      return time_pairs(
          [&](std::uint64_t) {
            const auto made = thread.alloc(options.object_bytes);
            failed |= !made || !thread.free(*made);
          },
          ours_ns);
    }
    return time_pairs(
        [&](std::uint64_t at) {
          failed |= !thread.free(objects[at]);
          const auto made = thread.alloc(options.object_bytes);
          failed |= !made;
          if (made) objects[at] = *made;
        },
        ours_ns);
  };
  const auto baseline = [&] {
    if (options.live == 0) {
      return time_pairs(
          [&](std::uint64_t) {
            void* made = jemalloc.allocate(options.object_bytes);
            keep(made);
            jemalloc.release(made);
          },
          jemalloc_ns);
    }
    return time_pairs(
        [&](std::uint64_t at) {
          jemalloc.release(blocks[at]);
          blocks[at] = jemalloc.allocate(options.object_bytes);
          keep(blocks[at]);
        },
        jemalloc_ns);
  };
  const std::string name = fmt::format("alloc_free_{}_of_{}", options.object_bytes, options.live);
  if (jemalloc) {
    report.ratio(name + "_against_jemalloc", compare(options.rounds, ours, baseline));
    report.result(name + "_jemalloc_ns", median(jemalloc_ns));
    for (void* block : blocks) jemalloc.release(block);
  } else {
    for (int i = 0; i < options.rounds; ++i) ours();
  }
  report.result(name + "_ns", median(ours_ns));
  if (failed) return fail(ErrorCode::kCorrupt, "an allocation of the benchmark failed");
  return {};
}

namespace {

// Fills frames of one class and frees a random part. Returns what is left.
Result<std::vector<ObjectPtr>> thin_out(HeapThread& thread, std::uint64_t objects, std::uint32_t bytes,
                                        double freed, Prng& random) {
  std::vector<ObjectPtr> live;
  for (std::uint64_t i = 0; i < objects; ++i) {
    YONDER_TRY(object, thread.alloc(bytes));
    live.push_back(object);
  }
  // Exactly this share, in random order, as in the paper's Figure 17.
  for (auto count = static_cast<std::uint64_t>(static_cast<double>(objects) * freed); count > 0; --count) {
    std::swap(live[random.below(live.size())], live.back());
    YONDER_TRY_VOID(thread.free(live.back()));
    live.pop_back();
  }
  return live;
}

}  // namespace

Result<void> measure_heap_merge(const HeapMergeOptions& options, Report& report) {
  std::vector<double> cpu_ms;
  node::CompactionCounters counters;
  for (int round = 0; round < options.rounds; ++round) {
    YONDER_TRY(heap, Heap::create(kClock, {.classes = {.frame_bytes = options.frame_bytes}, .seed = 1}));
    YONDER_TRY(thread, heap->register_thread());
    const std::uint8_t size_class = heap->classes().class_for(options.object_bytes);
    Prng random(options.seed + static_cast<std::uint64_t>(round));
    YONDER_TRY(live, thin_out(thread, options.frames * heap->classes()[size_class].slots,
                              options.object_bytes, options.freed, random));
    const double start = cpu_seconds();
    heap->compactor().compact(size_class);
    heap->reclaim();
    cpu_ms.push_back((cpu_seconds() - start) * 1e3);
    counters = heap->compactor().counters();
  }
  const std::string name = fmt::format("merge_{}_frames", options.frames);
  report.result(name + "_cpu_ms", median(cpu_ms));
  report.result(name + "_freed", static_cast<double>(counters.frames_freed));
  report.result(name + "_objects_moved", static_cast<double>(counters.objects_moved));
  report.result(name + "_collection_us", static_cast<double>(counters.collection_ns) * 1e-3);
  report.result(name + "_slices", static_cast<double>(counters.slices));
  report.result(name + "_longest_slice_us", static_cast<double>(counters.longest_slice_ns) * 1e-3);
  return {};
}

Result<void> measure_heap_packing(const HeapPackOptions& options, Report& report) {
  const std::uint64_t need = options.objects * (options.object_bytes + 64) * 5 / 4;
  YONDER_TRY(heap, Heap::create(kClock, {.limit = Bytes(need + (64u << 20)), .seed = 1}));
  YONDER_TRY(thread, heap->register_thread());
  const std::uint8_t size_class = heap->classes().class_for(options.object_bytes);
  const auto& shape = heap->classes()[size_class];
  Prng random(options.seed);
  YONDER_TRY(live, thin_out(thread, options.objects, options.object_bytes, options.freed, random));
  const std::uint64_t before = heap->stats().active_bytes;
  heap->compactor().compact(size_class);
  heap->reclaim();
  const auto active = static_cast<double>(heap->stats().active_bytes);
  const auto ideal =
      static_cast<double>((live.size() + shape.slots - 1) / shape.slots * std::uint64_t{shape.frame_bytes});
  const double ratio = active / ideal;
  const std::string name = fmt::format("packing_{}_freed_{:.0f}", options.object_bytes, options.freed * 100);
  report.ratio(name + "_against_ideal", std::span(&ratio, 1));
  report.result(name + "_before_mib", static_cast<double>(before) / (1 << 20));
  report.result(name + "_after_mib", active / (1 << 20));
  return {};
}

Result<void> measure_heap_overhead(const HeapOverheadOptions& options, Report& report) {
  const std::uint64_t need = options.objects * (options.object_bytes + 64) * 5 / 4;
  YONDER_TRY(heap, Heap::create(kClock, {.limit = Bytes(need + (64u << 20)), .seed = 1}));
  YONDER_TRY(thread, heap->register_thread());
  const auto& shape = heap->classes()[heap->classes().class_for(options.object_bytes)];
  // Whole frames, so that what the last one has left is not counted as a cost.
  const std::uint64_t objects = (options.objects + shape.slots - 1) / shape.slots * shape.slots;
  for (std::uint64_t i = 0; i < objects; ++i) YONDER_TRY_VOID(thread.alloc(options.object_bytes));
  const node::HeapStats stats = heap->stats();
  const double rounding =
      static_cast<double>(shape.slot_bytes - heap->classes().slot_bytes_for(options.object_bytes));
  const double per_object =
      static_cast<double>(stats.active_bytes + stats.metadata_bytes) / static_cast<double>(objects);
  report.result(fmt::format("bytes_per_object_overhead_{}", options.object_bytes),
                per_object - options.object_bytes - rounding);
  return {};
}

}  // namespace yonder::bench
