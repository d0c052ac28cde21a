#include "bench/fabric/verbs_bench.h"

#include <sched.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>

#include "bench/harness/report.h"
#include "yonder/base/secure_random.h"
#include "yonder/fabric/verbs/verbs.h"

namespace yonder::bench {
namespace {

using fabric::CompletionQueue;
using fabric::Endpoint;
using fabric::Fabric;

// Everything of this process that starts from now on runs on one processor, the
// last of those allowed; ends with the object.
class OneProcessor {
 public:
  OneProcessor() {
    ::sched_getaffinity(0, sizeof all_, &all_);
    for (int i = 0; i < CPU_SETSIZE; ++i) {
      if (CPU_ISSET(i, &all_)) number_ = i;
    }
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(number_, &one);
    ::sched_setaffinity(0, sizeof one, &one);
  }
  ~OneProcessor() { ::sched_setaffinity(0, sizeof all_, &all_); }
  OneProcessor(const OneProcessor&) = delete;
  OneProcessor& operator=(const OneProcessor&) = delete;

 private:
  cpu_set_t all_;
  int number_ = 0;
};

// A target and an initiator of ours; made once, used in every round.
class Ours {
 public:
  static Result<std::unique_ptr<Ours>> open(const VerbsLatencyOptions& options) {
    auto ours = std::make_unique<Ours>();
    YONDER_TRY(fabric, fabric::verbs::open({.device = options.device}));
    ours->fabric_ = std::move(fabric);
    ours->memory_.resize(options.bytes);
    ours->buffer_.resize(options.bytes);
    YONDER_TRY(target, ours->fabric_->register_memory({.memory = ours->memory_}));
    ours->target_ = std::move(target);
    YONDER_TRY(local, ours->fabric_->register_memory({.memory = ours->buffer_}));
    ours->local_ = std::move(local);
    YONDER_TRY(queue, ours->fabric_->create_completion_queue({.capacity = 16}));
    ours->queue_ = std::move(queue);
    YONDER_TRY(listener, ours->fabric_->listen({.address = "verbs://*:0", .passive = true}));
    ours->listener_ = std::move(listener);
    YONDER_TRY(endpoint, ours->fabric_->connect({.address = ours->listener_->address(),
                                                 .endpoint = {.depth = 1, .receive_depth = 1}},
                                                *ours->queue_));
    ours->endpoint_ = std::move(endpoint);
    return ours;
  }

  // The median of `count` reads, in microseconds: from post to post, less the pause.
  Result<double> read(std::uint32_t count, Duration pause) {
    const auto piece = fabric::LocalPiece::of(std::span(buffer_), local_.local_key());
    const fabric::WorkRequest request{.local = {&piece, 1}, .remote = target_.token().at(0)};
    std::vector<double> times(count);
    Instant start = fabric_->clock().now();
    for (double& time : times) {
      YONDER_TRY(posted, endpoint_->post({&request, 1}));
      (void)posted;
      fabric::Completion done;
      while (queue_->poll({&done, 1}) == 0) {
      }
      if (!done.ok()) return fail(done.status, "read");
      Instant now = fabric_->clock().now();
      for (const Instant go_on = now + pause; now < go_on;) now = fabric_->clock().now();
      time = static_cast<double>((now - start - pause).count()) / 1e3;
      start = now;
    }
    return median(times);
  }

  // "10.77.0.1"
  std::string ip() const {
    const std::string address = listener_->address();
    const std::size_t start = std::strlen("verbs://");
    return address.substr(start, address.rfind(':') - start);
  }

 private:
  std::vector<std::byte> memory_;
  std::vector<std::byte> buffer_;
  std::unique_ptr<Fabric> fabric_;
  fabric::Region target_;
  fabric::Region local_;
  std::unique_ptr<CompletionQueue> queue_;
  std::unique_ptr<fabric::Listener> listener_;
  std::unique_ptr<Endpoint> endpoint_;
};

// The fifth column of the line of figures: t_typical, the median.
double typical_of(const std::string& output) {
  std::size_t at = 0;
  while (at < output.size()) {
    const std::size_t end = output.find('\n', at);
    unsigned bytes = 0;
    unsigned iterations = 0;
    double least = 0;
    double most = 0;
    double typical = 0;
    const std::string line = output.substr(at, end - at);
    if (std::sscanf(line.c_str(), "%u %u %lf %lf %lf", &bytes, &iterations, &least, &most, &typical) == 5) {
      return typical;
    }
    if (end == std::string::npos) break;
    at = end + 1;
  }
  return 0;
}

// Runs ib_read_lat as server and client, both on our processor (they inherit it);
// the client tries again until the server listens. The options name no device if
// none was asked for. Its samples reach from post to post, with the pause.
Result<double> run_perftest(const VerbsLatencyOptions& options, const std::string& ip) {
  YONDER_TRY(random, secure_random_u64());
  std::string common = "ib_read_lat -F -s " + std::to_string(options.bytes) + " -n " +
                       std::to_string(options.reads) + " -p " + std::to_string(20000 + random % 30000);
  if (!options.device.empty()) common += " -d " + options.device;
  const auto pause_us = options.pause.count();
  const std::string client =
      common + (pause_us == 0 ? " " : " --latency_gap " + std::to_string(pause_us) + " ") + ip;
  const std::string script = "timeout 60 " + common + " >/dev/null 2>&1 & server=$!; n=0; " +
                             "until out=$(timeout 30 " + client + " 2>/dev/null); do " +
                             "n=$((n+1)); [ $n -lt 40 ] || break; sleep 0.1; done; " +
                             "kill $server 2>/dev/null; wait $server; printf '%s\\n' \"$out\"";
  FILE* pipe = ::popen(script.c_str(), "r");
  if (pipe == nullptr) return fail_errno("popen");
  std::string output;
  char part[512];
  while (std::fgets(part, sizeof part, pipe) != nullptr) output += part;
  ::pclose(pipe);
  const double typical = typical_of(output);
  if (typical <= 0) return fail(ErrorCode::kNotFound, "run ib_read_lat (Debian package perftest)");
  return typical - static_cast<double>(pause_us);
}

}  // namespace

double VerbsLatency::ratio() const { return median(ours_us) / median(perftest_us); }

Result<VerbsLatency> measure_verbs_latency(const VerbsLatencyOptions& options) {
  const OneProcessor pinned;
  YONDER_TRY(ours, Ours::open(options));
  const std::string ip = ours->ip();
  VerbsLatency out;
  YONDER_TRY(warm, ours->read(options.reads / 4 + 1, options.pause));
  (void)warm;
  for (std::uint32_t round = 0; round < options.rounds; ++round) {
    for (const bool is_ours : {round % 2 == 0, round % 2 != 0}) {
      const auto measured = is_ours ? ours->read(options.reads, options.pause) : run_perftest(options, ip);
      if (!measured) return std::unexpected(measured.error());
      (is_ours ? out.ours_us : out.perftest_us).push_back(*measured);
    }
    out.ratios.push_back(out.ours_us.back() / out.perftest_us.back());
  }
  return out;
}

}  // namespace yonder::bench
