#include "bench/heap/prefetch_bench.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "bench/heap/far_node.h"
#include "bench/heap/scan.h"
#include "bench/heap/settings.h"
#include "bench/heap/sweep.h"
#include "bench/heap/workers.h"
#include "yonder/heap/slot_store.h"

namespace yonder::bench {
namespace {

using heap::MemoryKind;
using heap::Settings;

constexpr std::size_t kUnderWay = 64;

// Bytes a second that reads of whole pages bring in, many under way.
Result<double> read_all(far::SlotStore& store) {
  std::vector<std::byte> buffer(kUnderWay * far::kPageBytes);
  std::array<far::Transfer, kUnderWay> reads;
  const Instant begin = os::SteadyClock::read();
  for (std::uint64_t offset = 0; offset < store.bytes(); offset += buffer.size()) {
    const std::uint64_t pages =
        std::min<std::uint64_t>(kUnderWay, (store.bytes() - offset) / far::kPageBytes);
    for (std::uint64_t i = 0; i < pages; ++i)
      reads[i] = {.local = buffer.data() + i * far::kPageBytes,
                  .bytes = far::kPageBytes,
                  .offset = offset + i * far::kPageBytes};
    YONDER_TRY_VOID(store.read_many(std::span(reads).first(pages)));
  }
  return static_cast<double>(store.bytes()) / heap::seconds_since(begin);
}

Result<double> link_bytes_per_s(const Settings& settings, const std::string& node) {
  YONDER_TRY(store, far::SlotStore::open({.node = node,
                                          .link = node.empty() ? "model=rdma100g" : "",
                                          .bytes = Bytes(settings.work.bytes / 4),
                                          .lanes = 1}));
  YONDER_TRY_VOID(read_all(*store));  // The first touch of its memory is not the link's.
  return read_all(*store);
}

Result<double> measure_link(const Settings& settings, const std::string& provider) {
  std::optional<heap::FarNode> node;
  if (provider == "tcp") {
    YONDER_TRY(started, heap::FarNode::start(Bytes(settings.work.bytes)));
    node = std::move(started);
  }
  return heap::measure_in_child([&] { return link_bytes_per_s(settings, node ? node->address() : ""); },
                                std::chrono::minutes(2));
}

Result<double> measure_scan(const Settings& settings, const std::string& provider, bool read_ahead) {
  YONDER_TRY(run, heap::measure_run({.workload = &heap::scan_workload(),
                                     .memory = MemoryKind::kHybrid,
                                     .work = settings.work,
                                     .local = Bytes(settings.work.bytes / 4),
                                     .read_ahead = read_ahead},
                                    provider));
  return run.operations_per_s;
}

Result<void> measure(const Settings& settings, const std::string& provider, const std::string& prefix,
                     Report& report) {
  std::vector<double> with;
  std::vector<double> without;
  std::vector<double> link;
  std::vector<double> gain;
  std::vector<double> use;
  for (int round = 0; round < settings.rounds + 2; ++round) {
    YONDER_TRY(ahead, measure_scan(settings, provider, true));
    YONDER_TRY(raw, measure_link(settings, provider));
    YONDER_TRY(none, measure_scan(settings, provider, false));
    with.push_back(ahead);
    link.push_back(raw);
    without.push_back(none);
    gain.push_back(ahead / none);
    use.push_back(ahead / raw);
  }
  report.result(prefix + "scan_bytes_per_s", median(with));
  report.result(prefix + "scan_bytes_per_s_without", median(without));
  report.result(prefix + "link_bytes_per_s", median(link));
  report.ratio(prefix + "prefetch_vs_none", gain);
  report.ratio(prefix + "scan_vs_link", use);
  return {};
}

}  // namespace

Result<void> run_prefetch_bench(const Options& options, Report& report) {
  YONDER_TRY(settings, Settings::read(options));
  settings.describe(report);
  return for_providers(options, report, {"shm", "tcp"}, [&](const std::string& provider) {
    return measure(settings, provider, provider == "tcp" ? "" : provider + "_", report);
  });
}

}  // namespace yonder::bench
