// tcp_bench [rounds [operations [bytes [depth [factor]]]]]: prints what run_tcp_bench measures.
#include <cstdio>
#include <cstdlib>

#include "bench/fabric/tcp_bench.h"
#include "bench/harness/report.h"

int main(int argc, char** argv) {
  const auto number = [&](int index, int fallback) {
    return argc > index ? std::atoi(argv[index]) : fallback;
  };
  yonder::bench::TcpBenchOptions options;
  options.rounds = number(1, options.rounds);
  options.operations = static_cast<std::size_t>(number(2, static_cast<int>(options.operations)));
  options.read_bytes = static_cast<std::uint32_t>(number(3, static_cast<int>(options.read_bytes)));
  options.depth = static_cast<std::uint32_t>(number(4, static_cast<int>(options.depth)));
  options.throughput_factor =
      static_cast<std::size_t>(number(5, static_cast<int>(options.throughput_factor)));
  const auto result = yonder::bench::run_tcp_bench(options);
  if (!result) {
    std::fprintf(stderr, "%s\n", result.error().to_string().c_str());
    return 1;
  }
  yonder::bench::Report report("fabric");
  report.set_fabric("tcp");
  report.result("tcp_read_p50_ns", result->ours_p50_ns);
  report.result("raw_read_p50_ns", result->raw_p50_ns);
  report.result("tcp_ops_per_s", result->ours_ops_per_s);
  report.result("raw_ops_per_s", result->raw_ops_per_s);
  report.result("tcp_allocations_per_operation", result->allocations_per_operation);
  report.result("tcp_idle_cpu_share", result->idle_cpu_share);
  report.ratio("tcp_latency_vs_raw", result->latency_ratios);
  report.ratio("tcp_throughput_vs_raw", result->throughput_ratios);
  std::printf("%s", report.to_text().c_str());
  return 0;
}
