#include "bench/fabric/tcp_bench.h"

#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <thread>

#include "bench/fabric/raw_sockets.h"
#include "bench/harness/heap_counter.h"
#include "bench/harness/report.h"
#include "yonder/base/check.h"
#include "yonder/fabric/tcp/tcp.h"
#include "yonder/os/mapping.h"
#include "yonder/os/steady_clock.h"

namespace yonder::bench {
namespace {

using fabric::Completion;
using fabric::LocalPiece;
using fabric::WorkRequest;

constexpr std::size_t kMemoryBytes = 1 << 20;
// One core for each of the two threads, in both cases: what the scheduler would
// make of them depends on who else runs.
constexpr unsigned kClientCpu = 0;
constexpr unsigned kServerCpu = 1;
constexpr Duration kIdleTime = std::chrono::seconds(2);

std::int64_t now_ns() { return os::SteadyClock::read().ns(); }

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// A passive target and a client of it.
class Ours {
 public:
  static Result<std::unique_ptr<Ours>> create(const TcpBenchOptions& options);

  void read_one();
  template <typename Answered>
  void pipeline(std::size_t count, Answered&& answered);
  fabric::CompletionQueue& queue() { return *queue_; }

 private:
  explicit Ours(const TcpBenchOptions& options)
      : options_(options),
        buffer_(std::size_t{options.depth} * options.read_bytes),
        pieces_(options.depth),
        requests_(options.depth) {}
  Result<void> set_up();

  const TcpBenchOptions options_;
  os::Mapping memory_;
  std::unique_ptr<fabric::Fabric> target_;
  std::unique_ptr<fabric::Fabric> initiator_;
  fabric::Region region_;
  std::unique_ptr<fabric::Listener> listener_;
  std::unique_ptr<fabric::CompletionQueue> queue_;
  std::unique_ptr<fabric::Endpoint> endpoint_;
  std::vector<std::byte> buffer_;
  std::vector<LocalPiece> pieces_;
  std::vector<WorkRequest> requests_;
};

Result<std::unique_ptr<Ours>> Ours::create(const TcpBenchOptions& options) {
  std::unique_ptr<Ours> ours(new Ours(options));
  YONDER_TRY_VOID(ours->set_up());
  return ours;
}

Result<void> Ours::set_up() {
  YONDER_TRY(memory, os::Mapping::anonymous({.bytes = kMemoryBytes, .populate = true}));
  YONDER_TRY(target, fabric::tcp::open({.service_cpu = kServerCpu}));
  YONDER_TRY(initiator, fabric::tcp::open());
  memory_ = std::move(memory);
  target_ = std::move(target);
  initiator_ = std::move(initiator);
  YONDER_TRY(region, target_->register_memory({.memory = memory_.bytes()}));
  region_ = std::move(region);
  YONDER_TRY(listener, target_->listen({.address = options_.address, .passive = true}));
  listener_ = std::move(listener);
  YONDER_TRY(queue, initiator_->create_completion_queue({}));
  queue_ = std::move(queue);
  YONDER_TRY(endpoint, initiator_->connect({.address = listener_->address()}, *queue_));
  endpoint_ = std::move(endpoint);
  for (std::size_t i = 0; i < options_.depth; ++i) {
    pieces_[i] = LocalPiece::of(std::span(buffer_).subspan(i * options_.read_bytes, options_.read_bytes));
    requests_[i] = {.local = {&pieces_[i], 1}, .remote = region_.token().at(i * options_.read_bytes)};
  }
  return {};
}

void Ours::read_one() {
  YONDER_CHECK(endpoint_->post({requests_.data(), 1}).has_value(), "the benchmark lost its connection");
  Completion done;
  while (queue_->poll({&done, 1}) == 0) {
  }
  YONDER_CHECK(done.ok(), "a read of the benchmark failed");
}

template <typename Answered>
void Ours::pipeline(std::size_t count, Answered&& answered) {
  std::vector<Completion> done(options_.depth);
  std::size_t asked = std::min<std::size_t>(options_.depth, count);
  std::size_t finished = 0;
  YONDER_CHECK(endpoint_->post({requests_.data(), asked}).has_value(), "the benchmark lost its connection");
  while (finished < count) {
    const std::size_t got = queue_->poll(done);
    for (std::size_t i = 0; i < got; ++i) YONDER_CHECK(done[i].ok(), "a read of the benchmark failed");
    finished += got;
    const std::size_t more = std::min(got, count - asked);
    asked += more;
    answered(got);
    if (more != 0)
      YONDER_CHECK(endpoint_->post({requests_.data(), more}).has_value(),
                   "the benchmark lost its connection");
  }
}

template <typename Once>
double p50_ns(std::size_t operations, Once&& once) {
  std::vector<double> times(operations);
  for (std::size_t i = 0; i < operations / 10; ++i) once();  // Warms both ends up.
  for (double& time : times) {
    const std::int64_t start = now_ns();
    once();
    time = static_cast<double>(now_ns() - start);
  }
  return median(times);
}

// The rate within the median stretch of kStretch operations: a stretch in which
// another program had one of the cores says nothing about us.
template <typename Pipeline>
double ops_per_s(std::size_t operations, Pipeline&& pipeline) {
  constexpr std::size_t kStretch = 512;
  std::vector<double> stretches;
  stretches.reserve(operations / kStretch + 1);
  std::int64_t start = now_ns();
  std::size_t in_stretch = 0;
  pipeline(operations, [&](std::size_t answered) {
    in_stretch += answered;
    if (in_stretch < kStretch) return;
    const std::int64_t end = now_ns();
    stretches.push_back(static_cast<double>(in_stretch) * 1e9 / static_cast<double>(end - start));
    start = end;
    in_stretch = 0;
  });
  return median(stretches);
}

double allocations_per_operation(Ours& ours, std::size_t operations) {
  if (!HeapCounter::available()) return -1;
  ours.pipeline(operations, [](std::size_t) {});
  for (int i = 0; i < 100; ++i) ours.read_one();
  const std::uint64_t before = HeapCounter::allocations();
  for (std::size_t i = 0; i < operations; ++i) ours.read_one();
  return static_cast<double>(HeapCounter::allocations() - before) / static_cast<double>(operations);
}

// The client sleeps in wait(), the target has nothing to serve.
double idle_cpu_share(Ours& ours) {
  const Deadline end = Deadline::at(os::SteadyClock::read() + kIdleTime);
  const double before = cpu_seconds();
  const std::int64_t start = now_ns();
  while (!end.passed(os::SteadyClock::read())) (void)ours.queue().wait(end);
  return (cpu_seconds() - before) * 1e9 / static_cast<double>(now_ns() - start);
}

Result<TcpBenchResult> measure(const TcpBenchOptions& options) {
  YONDER_TRY(ours, Ours::create(options));
  YONDER_TRY(raw, RawPair::connect(options.read_bytes));
  TcpBenchResult result;
  std::vector<double> ours_latency, raw_latency, ours_rate, raw_rate;
  result.latency_ratios = compare(
      options.rounds,
      [&] { return ours_latency.emplace_back(p50_ns(options.operations, [&] { ours->read_one(); })); },
      [&] {
        const RawPair::Serving serving(raw, kServerCpu);
        return raw_latency.emplace_back(p50_ns(options.operations, [&] { raw.ask(); }));
      });
  const std::size_t many = options.operations * options.throughput_factor;
  result.throughput_ratios = compare(
      options.rounds,
      [&] {
        return ours_rate.emplace_back(
            ops_per_s(many, [&](std::size_t n, auto&& told) { ours->pipeline(n, told); }));
      },
      [&] {
        const RawPair::Serving serving(raw, kServerCpu);
        return raw_rate.emplace_back(
            ops_per_s(many, [&](std::size_t n, auto&& told) { raw.pipeline(n, options.depth, told); }));
      });
  result.ours_p50_ns = median(ours_latency);
  result.raw_p50_ns = median(raw_latency);
  result.ours_ops_per_s = median(ours_rate);
  result.raw_ops_per_s = median(raw_rate);
  result.allocations_per_operation = allocations_per_operation(*ours, options.operations);
  result.idle_cpu_share = idle_cpu_share(*ours);
  return result;
}

}  // namespace

Result<TcpBenchResult> run_tcp_bench(const TcpBenchOptions& options) {
  // On a thread of its own, so that the caller's keeps its freedom.
  Result<TcpBenchResult> result = fail(ErrorCode::kCancelled, "benchmark");
  std::thread([&] {
    keep_this_thread_on(kClientCpu);
    result = measure(options);
  }).join();
  return result;
}

}  // namespace yonder::bench
