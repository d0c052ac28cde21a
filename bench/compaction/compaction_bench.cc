#include "bench/compaction/compaction_bench.h"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "bench/compaction/load.h"
#include "bench/compaction/remap_bench.h"
#include "yonder/base/prng.h"
#include "yonder/client/session.h"
#include "yonder/fabric/open/open.h"
#include "yonder/node/server.h"

namespace yonder::bench {
namespace {

using node::HeapThread;
using node::ObjectPtr;

double thread_cpu_ms() {
  timespec ts{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
  return static_cast<double>(ts.tv_sec) * 1e3 + static_cast<double>(ts.tv_nsec) * 1e-6;
}

// A node with a class that was filled and thinned out at random.
struct Node {
  std::unique_ptr<fabric::Fabric> fabric;
  std::unique_ptr<node::Server> server;
  std::vector<ObjectPtr> objects;

  static Result<Node> create(const CompactionCase& wanted) {
    Node out;
    YONDER_TRY(fabric, fabric::open("shm:"));
    out.fabric = std::move(fabric);
    static std::atomic<unsigned> next{0};
    node::NodeOptions options;
    options.ports = {{.fabric = out.fabric.get(),
                      .address = fmt::format("shm:bench-compaction-{}-{}", ::getpid(), next++)}};
    options.heap.classes.frame_bytes = 4096;
    options.heap.seed = wanted.seed;
    options.compaction.automatic = false;  // It begins when we say so.
    YONDER_TRY(server, node::Server::create(options));
    out.server = std::move(server);
    YONDER_TRY(thread, out.server->heap().register_thread());
    YONDER_TRY_VOID(out.thin_out(thread, wanted));
    return out;
  }

  std::uint8_t size_class() const { return objects[0].size_class(); }

 private:
  Result<void> thin_out(HeapThread& thread, const CompactionCase& wanted) {
    const node::SizeClasses& classes = server->heap().classes();
    const std::uint64_t count = wanted.frames * classes[classes.class_for(wanted.object_bytes)].slots;
    const std::vector<std::byte> value(wanted.object_bytes, std::byte{1});
    for (std::uint64_t i = 0; i < count; ++i) {
      YONDER_TRY(object, thread.alloc(wanted.object_bytes));
      YONDER_TRY_VOID(thread.write(object, value));
      objects.push_back(object);
    }
    Prng random(wanted.seed);
    for (auto left = static_cast<std::uint64_t>(wanted.freed * static_cast<double>(count)); left > 0;
         --left) {
      std::swap(objects[random.below(objects.size())], objects.back());
      YONDER_TRY_VOID(thread.free(objects.back()));
      objects.pop_back();
    }
    return {};
  }
};

// Reads by one of the paths; a pointer that it gets wrong is corrected in place.
class Reader {
 public:
  static Result<std::unique_ptr<Reader>> create(Node& node, ReadPath path) {
    auto reader = std::unique_ptr<Reader>(new Reader);
    if (path == ReadPath::kEmbedded) {
      YONDER_TRY(thread, node.server->heap().register_thread());
      reader->thread_ = std::make_unique<HeapThread>(std::move(thread));
      return reader;
    }
    YONDER_TRY(session, client::Session::connect(*node.fabric, {.address = node.server->address(),
                                                                .correction = client::Correction::kScan}));
    reader->session_ = std::move(session);
    reader->by_rpc_ = path == ReadPath::kRpc;
    return reader;
  }

  bool read(ObjectPtr& object, std::span<std::byte> out) {
    if (thread_) return thread_->read(object, out).has_value();
    if (by_rpc_) return session_->read(object, out).has_value();
    return session_->direct_read(object, out).has_value();
  }

 private:
  Reader() = default;
  std::unique_ptr<HeapThread> thread_;
  std::unique_ptr<client::Session> session_;
  bool by_rpc_ = false;
};

// Compacts the class on a thread of its own: a slice, a pause, a slice.
class CompactorThread {
 public:
  CompactorThread(node::Compactor& compactor, std::uint8_t size_class, Duration pause)
      : thread_([this, &compactor, size_class, pause] {
          const double start = thread_cpu_ms();
          for (;;) {
            const node::SliceOutcome outcome = compactor.slice(size_class);
            if (outcome == node::SliceOutcome::kNothing || outcome == node::SliceOutcome::kBusy) break;
            if (pause > Duration(0)) std::this_thread::sleep_for(pause);
          }
          cpu_ms_ = thread_cpu_ms() - start;
          // release: pairs with the acquire in done(); cpu_ms_ is written.
          done_.store(true, std::memory_order_release);
        }) {}
  ~CompactorThread() {
    if (thread_.joinable()) thread_.join();
  }
  CompactorThread(const CompactorThread&) = delete;
  CompactorThread& operator=(const CompactorThread&) = delete;

  bool done() const { return done_.load(std::memory_order_acquire); }
  double cpu_ms() const { return cpu_ms_; }  // When done.

 private:
  std::atomic<bool> done_{false};
  double cpu_ms_ = 0;
  std::thread thread_;  // Last: it uses the others.
};

constexpr const char* name_of(ReadPath path) {
  return path == ReadPath::kEmbedded ? "embedded" : path == ReadPath::kOneSided ? "one_sided" : "rpc";
}

// Medians over rounds of what `of` says about each.
double median_of(std::span<const CompactionRound> rounds,
                 const std::function<double(const CompactionRound&)>& of) {
  std::vector<double> values;
  for (const CompactionRound& round : rounds) values.push_back(of(round));
  return median(values);
}

void add_path(ReadPath path, std::span<const CompactionRound> rounds, Report& report) {
  const std::string name = name_of(path);
  // The contract's names for the two remote paths.
  const std::string key = path == ReadPath::kOneSided ? "read" : name;
  std::vector<double> during;
  std::vector<double> after;
  for (const CompactionRound& round : rounds) {
    during.push_back(round.during_per_second / round.before_per_second);
    after.push_back(round.after_per_second / round.before_per_second);
  }
  report.ratio(key + "_during_vs_before", during);
  report.ratio(key + "_after_vs_before", after);
  report.result("longest_gap_ms_" + name, median_of(rounds, [](const auto& r) { return r.gap_ms_during; }));
  report.result("longest_gap_ms_" + name + "_without_compaction",
                median_of(rounds, [](const auto& r) { return r.gap_ms_without; }));
  report.result("reads_per_second_" + name,
                median_of(rounds, [](const auto& r) { return r.before_per_second; }));
  double failed = 0;
  for (const CompactionRound& round : rounds) failed += round.failed_reads;
  report.result("failed_reads_" + name, failed);
}

}  // namespace

Result<CompactionRound> measure_compaction(const CompactionCase& wanted) {
  YONDER_TRY(node, Node::create(wanted));
  YONDER_TRY(reader, Reader::create(node, wanted.path));
  CompactionRound out;
  Prng random(wanted.seed);
  std::vector<std::byte> buffer(wanted.object_bytes);
  const auto operation = [&] {
    if (!reader->read(node.objects[random.below(node.objects.size())], buffer)) ++out.failed_reads;
  };
  const auto for_a_while = [&](Duration time) {
    return run_load(operation, [end = os::SteadyClock::read() + time](Instant now) { return now >= end; });
  };
  for_a_while(wanted.window / 4);  // Caches, translations, and the node's spinning threads.
  out.before_per_second = for_a_while(wanted.window).per_second();

  const node::CompactionCounters start = node.server->heap().compactor().counters();
  LoadResult during;
  {
    const CompactorThread compactor(node.server->heap().compactor(), node.size_class(), wanted.pause);
    during = run_load(operation, [&](Instant) { return compactor.done(); });
    out.cpu_ms = compactor.cpu_ms();
  }
  const node::CompactionCounters counters = node.server->heap().compactor().counters();
  out.during_per_second = during.per_second();
  out.gap_ms_during = during.longest_gap_ms();
  out.collection_us = static_cast<double>(counters.collection_ns - start.collection_ns) * 1e-3;
  out.longest_slice_us =
      static_cast<double>(std::max(counters.longest_slice_ns, counters.longest_collection_ns)) * 1e-3;
  out.blocks_freed = static_cast<double>(counters.frames_freed - start.frames_freed);

  out.after_per_second = for_a_while(wanted.window).per_second();
  out.gap_ms_without = for_a_while(during.took).longest_gap_ms();
  return out;
}

Result<double> measure_compaction_cpu(const CompactionCase& wanted) {
  YONDER_TRY(node, Node::create(wanted));
  const double start = thread_cpu_ms();
  node.server->heap().compactor().compact(node.size_class());
  return thread_cpu_ms() - start;
}

Result<void> run_compaction_bench(const Options& options, Report& report) {
  if (options.fabric == "sim") return run_remap_bench(options, report);
  CompactionCase wanted{.seed = options.seed};
  if (const auto text = options.parameters.find("pause_us"); text != options.parameters.end()) {
    char* end = nullptr;
    const unsigned long pause = std::strtoul(text->second.c_str(), &end, 10);
    if (text->second.empty() || *end != '\0' || pause > 1'000'000) {
      return fail(ErrorCode::kInvalidArgument, "--pause-us: 0 to 1,000,000");
    }
    wanted.pause = std::chrono::microseconds(pause);
  }
  const int rounds = options.quick ? 5 : 15;
  report.param("frames", static_cast<double>(wanted.frames));
  report.param("object_bytes", wanted.object_bytes);
  report.param("pause_us", std::chrono::duration<double, std::micro>(wanted.pause).count());
  std::vector<CompactionRound> one_sided;
  for (const ReadPath path : {ReadPath::kOneSided, ReadPath::kEmbedded, ReadPath::kRpc}) {
    std::vector<CompactionRound> measured;
    for (int round = 0; round < rounds; ++round) {
      wanted.path = path;
      YONDER_TRY(one, measure_compaction(wanted));
      measured.push_back(one);
    }
    add_path(path, measured, report);
    if (path == ReadPath::kOneSided) one_sided = std::move(measured);
  }
  report.result("longest_gap_ms_without_compaction",
                median_of(one_sided, [](const auto& r) { return r.gap_ms_without; }));
  std::vector<double> cpu_ms;
  for (int round = 0; round < rounds; ++round) {
    YONDER_TRY(once, measure_compaction_cpu(wanted));
    cpu_ms.push_back(once);
  }
  report.result("cpu_ms_5794_blocks", median(cpu_ms));
  report.result("cpu_ms_with_pauses", median_of(one_sided, [](const auto& r) { return r.cpu_ms; }));
  report.result("blocks_freed", median_of(one_sided, [](const auto& r) { return r.blocks_freed; }));
  report.result("collection_us", median_of(one_sided, [](const auto& r) { return r.collection_us; }));
  report.result("longest_slice_us", median_of(one_sided, [](const auto& r) { return r.longest_slice_us; }));
  return {};
}

}  // namespace yonder::bench
