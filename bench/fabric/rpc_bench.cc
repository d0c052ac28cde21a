#include "bench/fabric/rpc_bench.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "bench/harness/heap_counter.h"
#include "yonder/fabric/shm/shm.h"
#include "yonder/rpc/client.h"
#include "yonder/rpc/server.h"
#include "yonder/sync/mutex.h"

namespace yonder::bench {
namespace {

template <std::size_t kBytes>
struct Blob {
  static constexpr bool kPlain = true;
  std::array<std::uint64_t, kBytes / 8> words{};
};
template <std::size_t kBytes>
struct EchoBlob {
  static constexpr rpc::MethodId kMethod{kBytes};
  using Request = Blob<kBytes>;
  using Response = Blob<kBytes>;
};
// Answers when the test says so: what an idle client waits for.
struct Wait {
  static constexpr rpc::MethodId kMethod{1};
  using Request = rpc::Empty;
  using Response = rpc::Empty;
};

// The calling thread on one of the cores it was allowed when this was made.
class Cores {
 public:
  Cores() {
    ::sched_getaffinity(0, sizeof all_, &all_);
    for (int i = 0; i < CPU_SETSIZE; ++i) {
      if (CPU_ISSET(i, &all_)) cores_.push_back(i);
    }
  }
  ~Cores() { ::sched_setaffinity(0, sizeof all_, &all_); }
  Cores(const Cores&) = delete;
  Cores& operator=(const Cores&) = delete;

  std::size_t size() const { return cores_.size(); }
  void pin(std::size_t which) const {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cores_[which], &one);
    ::sched_setaffinity(0, sizeof one, &one);
  }

 private:
  cpu_set_t all_;
  std::vector<int> cores_;
};

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

double now_ns() { return static_cast<double>(std::chrono::steady_clock::now().time_since_epoch().count()); }

// A time per exchange that a busy machine does not spoil: the median over short
// segments, of which only a few meet a preemption.
constexpr std::uint32_t kSegment = 256;

template <typename F>
double median_of_segments(std::uint32_t count, F&& exchange) {
  std::vector<double> segments;
  segments.reserve(count / kSegment + 1);
  for (std::uint32_t done = 0; done < count; done += kSegment) {
    const double start = now_ns();
    for (std::uint32_t i = 0; i < kSegment; ++i) exchange();
    segments.push_back((now_ns() - start) / kSegment);
  }
  return median(std::move(segments));
}

// The bare line: we write odd numbers, the partner answers with the next even one.
double bounce_line(const Cores& cores, std::uint32_t count) {
  alignas(128) std::atomic<std::uint64_t> line{0};
  const std::uint64_t last = std::uint64_t{(count + kSegment - 1) / kSegment} * kSegment * 2;
  std::thread partner([&] {
    cores.pin(1);
    for (std::uint64_t next = 1; next < last; next += 2) {
      while (line.load(std::memory_order_acquire) != next) {
      }
      line.store(next + 1, std::memory_order_release);
    }
  });
  std::uint64_t next = 1;
  const double ns = median_of_segments(count, [&] {
    line.store(next, std::memory_order_release);
    while (line.load(std::memory_order_acquire) != next + 1) {
    }
    next += 2;
  });
  partner.join();
  return ns;
}

template <std::size_t kBytes>
Result<double> call_in_turn(rpc::Client& client, std::uint32_t count) {
  Result<void> status;
  const double ns = median_of_segments(count, [&] {
    const auto answer = client.call<EchoBlob<kBytes>>({}).wait();
    if (!answer) [[unlikely]]
      status = std::unexpected(answer.error());
  });
  YONDER_TRY_VOID(status);
  return ns;
}

template <std::size_t kBytes>
Result<double> call_in_batches(rpc::Client& client, std::uint32_t count) {
  static_assert(kSegment % 32 == 0);
  std::array<Blob<kBytes>, 32> requests;
  std::array<Result<Blob<kBytes>>, 32> results;
  std::vector<double> segments;
  for (std::uint32_t i = 0; i < count; i += kSegment) {
    const double start = now_ns();
    for (std::uint32_t j = 0; j < kSegment; j += 32) {
      client.call_many<EchoBlob<kBytes>>(requests, results);
      for (const auto& result : results) YONDER_TRY_VOID(result);
    }
    segments.push_back((now_ns() - start) / kSegment);
  }
  return median(std::move(segments));
}

double cpu_seconds(int who) {
  rusage usage{};
  ::getrusage(who, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// A server and a client over shm, the server's threads on the second core.
class Pair {
 public:
  static Result<std::unique_ptr<Pair>> open(const Cores& cores, bool other_fabric) {
    auto pair = std::make_unique<Pair>();
    YONDER_TRY(server_fabric, fabric::shm::open({}));
    YONDER_TRY(client_fabric, fabric::shm::open({}));
    pair->server_fabric_ = std::move(server_fabric);
    pair->client_fabric_ = std::move(client_fabric);
    const std::string address =
        "shm:rpc-bench-" + std::to_string(::getpid()) + (other_fabric ? "?inprocess=off" : "");
    YONDER_TRY(server,
               rpc::Server::create(*pair->server_fabric_, {.address = address, .max_connections = 8}));
    pair->server_ = std::move(server);
    pair->register_methods();
    // Threads inherit the core of the one that starts them.
    cores.pin(1);
    const Result<void> started = pair->server_->start();
    cores.pin(0);
    YONDER_TRY_VOID(started);
    YONDER_TRY(queue, pair->client_fabric_->create_completion_queue({}));
    pair->queue_ = std::move(queue);
    YONDER_TRY(client,
               rpc::Client::connect(*pair->client_fabric_, pair->server_->address(), *pair->queue_, {}));
    pair->client_ = std::move(client);
    return pair;
  }
  ~Pair() {
    sync::LockGuard lock(mutex_);
    responder_.reset();
  }

  rpc::Client& client() { return *client_; }

 private:
  void register_methods() {
    server_->handle<EchoBlob<8>>([](const rpc::Context&, const Blob<8>& b) -> Result<Blob<8>> { return b; });
    server_->handle<EchoBlob<16>>(
        [](const rpc::Context&, const Blob<16>& b) -> Result<Blob<16>> { return b; });
    server_->handle<EchoBlob<32>>(
        [](const rpc::Context&, const Blob<32>& b) -> Result<Blob<32>> { return b; });
    server_->handle<EchoBlob<64>>(
        [](const rpc::Context&, const Blob<64>& b) -> Result<Blob<64>> { return b; });
    server_->handle<Wait>([this](const rpc::Context&, const rpc::Empty&, rpc::Responder<Wait> responder) {
      sync::LockGuard lock(mutex_);
      responder_.emplace(std::move(responder));
    });
  }

  std::unique_ptr<fabric::Fabric> server_fabric_;
  std::unique_ptr<fabric::Fabric> client_fabric_;
  std::unique_ptr<rpc::Server> server_;
  sync::Mutex mutex_;
  std::optional<rpc::Responder<Wait>> responder_ YONDER_GUARDED_BY(mutex_);  // Never answers.
  std::unique_ptr<fabric::CompletionQueue> queue_;
  rpc::ClientPtr client_;
};

template <std::size_t kBytes>
Result<RpcBench> measure(const Cores& cores, Pair& pair, const RpcBenchOptions& options) {
  RpcBench bench;
  std::uint64_t allocations = 0;
  for (std::uint32_t i = 0; i < options.rounds; ++i) {
    RpcRound round;
    round.line_ns = bounce_line(cores, options.calls);
    YONDER_TRY(first, call_in_turn<kBytes>(pair.client(), options.calls / 10 + 1));
    (void)first;  // Wakes the server and fills the caches.
    const std::uint64_t before = HeapCounter::allocations();
    YONDER_TRY(rpc_ns, call_in_turn<kBytes>(pair.client(), options.calls));
    // The one vector of the segments' times is the benchmark's own.
    allocations += HeapCounter::allocations() - before - 1;
    YONDER_TRY(batched_ns, call_in_batches<kBytes>(pair.client(), options.calls));
    round.rpc_ns = rpc_ns;
    round.batched_ns = batched_ns;
    bench.rounds.push_back(round);
  }
  const auto median_of = [&](auto&& figure) {
    std::vector<double> values;
    for (const RpcRound& round : bench.rounds) values.push_back(figure(round));
    return median(std::move(values));
  };
  bench.line_ns = median_of([](const RpcRound& r) { return r.line_ns; });
  bench.rpc_ns = median_of([](const RpcRound& r) { return r.rpc_ns; });
  bench.batched_ns = median_of([](const RpcRound& r) { return r.batched_ns; });
  bench.ratio = median_of([](const RpcRound& r) { return r.rpc_ns / r.line_ns; });
  bench.allocations_per_call =
      static_cast<double>(allocations) / (static_cast<double>(options.rounds) * options.calls);
  return bench;
}

// The whole process rests, apart from what pollers and waiting clients burn.
void measure_idle(Pair& pair, RpcBench& bench) {
  constexpr auto kSilence = std::chrono::milliseconds(500);
  constexpr double kSeconds = 0.5;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const double before = cpu_seconds(RUSAGE_SELF);
  std::this_thread::sleep_for(kSilence);
  bench.idle_server_cpu = (cpu_seconds(RUSAGE_SELF) - before) / kSeconds;
  const double waiting_before = cpu_seconds(RUSAGE_THREAD);
  (void)pair.client().call<Wait>({}, Deadline::after(pair.client().queue().clock(), kSilence)).wait();
  bench.idle_client_cpu = (cpu_seconds(RUSAGE_THREAD) - waiting_before) / kSeconds;
}

}  // namespace

Result<RpcBench> measure_rpc(const RpcBenchOptions& options) {
  const Cores cores;
  if (cores.size() < 2) return fail(ErrorCode::kUnsupported, "rpc bench: needs two cores");
  if (options.rounds == 0 || options.calls == 0)
    return fail(ErrorCode::kInvalidArgument, "rpc bench: nothing to do");
  YONDER_TRY(pair, Pair::open(cores, options.other_fabric));
  Result<RpcBench> bench =
      fail(ErrorCode::kInvalidArgument, "rpc bench: payload_bytes", options.payload_bytes);
  switch (options.payload_bytes) {
    case 8:
      bench = measure<8>(cores, *pair, options);
      break;
    case 16:
      bench = measure<16>(cores, *pair, options);
      break;
    case 32:
      bench = measure<32>(cores, *pair, options);
      break;
    case 64:
      bench = measure<64>(cores, *pair, options);
      break;
    default:
      break;
  }
  if (bench) measure_idle(*pair, *bench);
  return bench;
}

}  // namespace yonder::bench
