#include "bench/heap/offload_bench.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "bench/heap/far_node.h"
#include "bench/heap/offload_arguments.h"
#include "bench/heap/offload_programs.h"
#include "bench/heap/run.h"
#include "bench/heap/settings.h"
#include "bench/heap/workers.h"
#include "yonder/heap/offload_space.h"

namespace yonder::bench {
namespace {

using heap::Figure;
using heap::OffloadWork;
using heap::Settings;

constexpr int kClientCore = 0;
constexpr int kNodeCore = 1;
// Of either program: some wait for the node while others compute.
constexpr unsigned kThreads = 4;
constexpr Duration kTimeout = std::chrono::minutes(10);

// The calling process has this core from now on, and its children. Where there is one core only,
// both share it.
void stay_on(int core) {
  if (std::thread::hardware_concurrency() < 2) return;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  (void)::sched_setaffinity(0, sizeof cores, &cores);
}

struct Comparison {
  std::string key;       // df, ws
  std::string workload;  // DF, WS
  Result<Figure> (*offloaded)(const OffloadWork& work);
};

class OffloadBench {
 public:
  OffloadBench(const Settings& settings, std::string programs, Report& report)
      : settings_(settings), programs_(std::move(programs)), report_(report) {
    local_ = Bytes(settings.work.bytes * settings.locals.front() / 100);
  }

  Result<void> compare(const Comparison& what) {
    std::vector<double> ratios;
    std::vector<double> there;
    std::vector<double> here;
    for (int round = 0; round < settings_.rounds + 1; ++round) {
      YONDER_TRY(fetched, fetch(what));
      YONDER_TRY(offloaded, offload(what));
      wrong_ += static_cast<double>(fetched.wrong_objects + offloaded.wrong_objects);
      if (fetched.checksum != offloaded.checksum) wrong_ += 1;
      there.push_back(offloaded.operations_per_s);
      here.push_back(fetched.operations_per_s);
      ratios.push_back(offloaded.operations_per_s / fetched.operations_per_s);
    }
    report_.ratio("offload_vs_fetch_" + what.key, ratios);
    report_.result(what.key + "_offload_per_s", median(there));
    report_.result(what.key + "_fetch_per_s", median(here));
    report_.result("wrong_objects", wrong_);
    return {};
  }

  Result<void> measure_call() {
    YONDER_TRY(node, start_node());
    YONDER_TRY(us, heap::measure_in_child(
                       [&]() -> Result<double> {
                         stay_on(kClientCore);
                         return call_us(address_of(node));
                       },
                       kTimeout));
    report_.result("call_us", us);
    return {};
  }

 private:
  static std::string address_of(const heap::FarNode& node) { return node.address() + "?model=rdma100g"; }

  Result<heap::FarNode> start_node() {
    heap::FarNodeOptions options{.memory = Bytes(settings_.work.bytes * 2 + (std::uint64_t{64} << 20)),
                                 .address = fmt::format("shm:offload-bench-{}-{}", ::getpid(), nodes_++),
                                 .in_child = [] { stay_on(kNodeCore); }};
    options.functions.directory = programs_ + "/../lib/yonder/functions";
    options.functions.program = programs_ + "/yonder-offload";
    return heap::FarNode::start(options);
  }

  Result<Figure> fetch(const Comparison& what) {
    YONDER_TRY(run, heap::run_in_child({.workload = heap::find_workload(what.workload),
                                        .memory = heap::MemoryKind::kHybrid,
                                        .work = settings_.work,
                                        .local = local_,
                                        .link = "model=rdma100g",
                                        .timeout = kTimeout,
                                        .in_child = [] {
                                          stay_on(kClientCore);
                                          return true;
                                        }}));
    return Figure{.operations_per_s = run.operations_per_s,
                  .checksum = run.checksum,
                  .wrong_objects = run.wrong_objects};
  }

  Result<Figure> offload(const Comparison& what) {
    YONDER_TRY(node, start_node());
    return heap::figure_in_child(
        [&] {
          stay_on(kClientCore);
          return what.offloaded({.work = settings_.work, .local = local_, .node = address_of(node)});
        },
        kTimeout);
  }

  static Result<double> call_us(const std::string& node) {
    constexpr int kCalls = 500;
    YONDER_TRY(space,
               far::OffloadSpace::create({.node = node, .bytes = Bytes(1 << 20), .budget = Bytes(1 << 19)}));
    const heap::CopyRows nothing{.from = nullptr, .to = nullptr, .rows = 0};
    std::vector<double> times;
    for (int i = 0; i < kCalls; ++i) {
      const Instant begin = os::SteadyClock::read();
      YONDER_TRY_VOID(space->call<void>({"heap_bench.copy", 1}, nothing, {}, kTimeout));
      times.push_back(heap::seconds_since(begin) * 1e6);
    }
    return median(times);
  }

  const Settings& settings_;
  const std::string programs_;
  Report& report_;
  Bytes local_{0};
  double wrong_ = 0;
  int nodes_ = 0;
};

std::string programs_of(const Options& options) {
  if (const auto given = options.parameters.find("programs"); given != options.parameters.end())
    return given->second;
  const std::size_t slash = options.program.rfind('/');
  return slash == std::string::npos ? "." : options.program.substr(0, slash);
}

}  // namespace

Result<void> run_offload_bench(const Options& options, Report& report) {
  Options filled = options;
  filled.parameters.try_emplace("bytes", std::to_string(options.quick ? 32 << 20 : 256 << 20));
  filled.parameters.try_emplace("local", "25");
  YONDER_TRY(settings, Settings::read(filled));
  settings.work.threads = kThreads;
  settings.describe(report);
  report.param("local_percent", settings.locals.front());
  report.set_fabric("shm");
  OffloadBench bench(settings, programs_of(options), report);
  YONDER_TRY_VOID(
      bench.compare({.key = "df", .workload = "DF", .offloaded = &heap::run_data_frame_offloaded}));
  YONDER_TRY_VOID(
      bench.compare({.key = "ws", .workload = "WS", .offloaded = &heap::run_web_service_offloaded}));
  return bench.measure_call();
}

}  // namespace yonder::bench
