#include "apps/yonder/demo.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "bench/fabric/connection.h"
#include "bench/harness/target_process.h"
#include "yonder/base/histogram.h"
#include "yonder/base/histogram_report.h"
#include "yonder/base/prng.h"
#include "yonder/base/progress.h"
#include "yonder/os/steady_clock.h"

namespace yonder::apps {
namespace {

using bench::Connection;

constexpr std::uint64_t kMemoryBytes = 64 << 20;
constexpr std::array<std::uint32_t, 3> kSizes = {64, 1024, 4096};

std::vector<std::byte> random_bytes(std::size_t count, std::uint64_t seed) {
  Prng random(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() & 0xff);
  return bytes;
}

// Writes a megabyte over one link and reads it back over the other.
Result<void> move_and_check(Connection& writer, Connection& reader) {
  const std::vector<std::byte> sent = random_bytes(1 << 20, 7);
  std::vector<std::byte> got(sent.size());
  YONDER_TRY_VOID(
      writer.endpoint->write(fabric::LocalPiece::of(std::span(sent)), writer.memory.at(0)).wait());
  YONDER_TRY_VOID(reader.endpoint->read(fabric::LocalPiece::of(std::span(got)), reader.memory.at(0)).wait());
  if (got != sent) return fail(ErrorCode::kCorrupt, "the bytes that came back are not those that were sent");
  fmt::print("  1 MiB written over {}, read back over {}: all bytes equal\n", writer.provider,
             reader.provider);
  return {};
}

Result<Histogram> time_reads(Connection& link, std::uint32_t bytes, int reads, Progress& progress) {
  const os::SteadyClock clock;
  Prng random(bytes);
  Histogram histogram;
  std::vector<std::byte> buffer(bytes);
  for (int i = 0; i < reads; ++i) {
    const std::uint64_t offset = random.below(kMemoryBytes / bytes) * bytes;
    const Instant start = clock.now();
    YONDER_TRY_VOID(
        link.endpoint->read(fabric::LocalPiece::of(std::span(buffer)), link.memory.at(offset)).wait());
    histogram.record(static_cast<std::uint64_t>((clock.now() - start).count()));
    progress.advance(1);
  }
  return histogram;
}

Result<void> show_latencies(std::vector<Connection>& links, int reads) {
  std::vector<std::string> names;
  std::vector<Histogram> histograms;
  const os::SteadyClock clock;
  {
    Progress progress(clock, STDERR_FILENO,
                      {.title = "reading",
                       .total = links.size() * kSizes.size() * static_cast<std::uint64_t>(reads),
                       .unit = "reads"});
    for (Connection& link : links) {
      for (const std::uint32_t bytes : kSizes) {
        YONDER_TRY(histogram, time_reads(link, bytes, reads, progress));
        names.push_back(fmt::format("{} read {} B", link.provider, bytes));
        histograms.push_back(std::move(histogram));
      }
    }
  }
  std::vector<HistogramRow> rows;
  for (std::size_t i = 0; i < names.size(); ++i) rows.push_back({names[i], histograms[i]});
  fmt::print("\n{}\n", render_table(rows, HistogramUnit::kNanoseconds));
  for (std::size_t i = 0; i < names.size(); i += kSizes.size()) {
    fmt::print("{}, how the time spreads:\n{}\n", names[i], render_bars(histograms[i]));
  }
  return {};
}

}  // namespace

Result<void> run_demo(const DemoOptions& options) {
  const std::string shm = fmt::format("shm:yonder-demo-{}", ::getpid());
  fmt::print("Starting another process that lends 64 MiB of its memory ...\n");
  YONDER_TRY(target, bench::TargetProcess::start(options.program, {.addresses = {shm, "tcp://127.0.0.1:0"},
                                                                   .memory = Bytes(kMemoryBytes)}));
  std::vector<Connection> links;
  for (const std::string& address : target.addresses()) {
    YONDER_TRY(link, bench::connect_to_lender(address));
    fmt::print("  connected to process {} over {}\n", target.pid(), address);
    links.push_back(std::move(link));
  }
  fmt::print("\nMoving data into it and back, without its program taking part:\n");
  YONDER_TRY_VOID(move_and_check(links[0], links[1]));
  YONDER_TRY_VOID(move_and_check(links[1], links[0]));
  fmt::print("\nReading at random offsets, one at a time:\n");
  return show_latencies(links, options.reads);
}

}  // namespace yonder::apps
