#include <array>
#include <cstring>
#include <thread>
#include <vector>

#include "bench/migrate/experiments.h"
#include "bench/migrate/pair.h"
#include "yonder/os/mapping.h"
#include "yonder/os/memfd.h"
#include "yonder/os/steady_clock.h"

namespace yonder::bench {
namespace {

constexpr std::size_t kPage = os::kPageBytes;

// Bytes a second of the provider's reads, as the prefetcher makes them, into memory that
// is there.
Result<double> raw_bandwidth(TargetSide& side, const std::string& address, const fabric::RegionToken& token) {
  constexpr std::size_t kChunk = 64 * kPage;
  YONDER_TRY(queue, side.fabric().create_completion_queue({}));
  YONDER_TRY(endpoint, side.fabric().connect({.address = address, .endpoint = {.depth = 64}}, *queue));
  YONDER_TRY(file, os::Memfd::create({.size = token.length}));
  YONDER_TRY(memory, os::Mapping::of_file(
                         file.fd(),
                         {.bytes = file.size(), .protection = os::Protection::kReadWrite, .populate = true}));
  YONDER_TRY_VOID(memory.populate_write(0, memory.size()));
  const Instant begin = os::SteadyClock::read();
  std::size_t posted = 0;
  std::size_t done = 0;
  while (done < token.length) {
    while (posted < token.length && posted - done < 4 * kChunk) {
      const fabric::LocalPiece piece = fabric::LocalPiece::of(memory.bytes(posted, kChunk));
      const fabric::WorkRequest request{
          .op = fabric::Op::kRead, .local = {&piece, 1}, .remote = token.at(posted)};
      YONDER_TRY(count, endpoint->post({&request, 1}));
      if (count == 0) break;
      posted += kChunk;
    }
    std::array<fabric::Completion, 8> completions;
    std::size_t count = queue->poll(completions);
    if (count == 0) (void)queue->wait();
    for (std::size_t i = 0; i < count; ++i) {
      if (!completions[i].ok()) return fail(completions[i].status, "read the raw link");
      done += kChunk;
    }
  }
  const Duration time = os::SteadyClock::read() - begin;
  endpoint->close();
  return static_cast<double>(token.length) * 1e9 / static_cast<double>(time.count());
}

// Bytes a second from the transfer until all is local, prefetcher alone.
Result<double> pull_bandwidth(TargetSide& side) {
  YONDER_TRY(got, side.agent().receive(soon()));
  const Instant begin = os::SteadyClock::read();
  while (!is_local(side.agent())) std::this_thread::sleep_for(std::chrono::microseconds(200));
  const Duration time = os::SteadyClock::read() - begin;
  YONDER_TRY_VOID(side.agent().close(got.id, soon()));
  YONDER_TRY_VOID(side.agent().deallocate(got.id));
  return static_cast<double>(got.memory.size()) * 1e9 / static_cast<double>(time.count());
}

}  // namespace

Result<void> report_bandwidth(const std::string& provider, const Options& options, Report& report) {
  const std::size_t bytes = std::size_t{256} << 20;
  const int rounds = options.quick ? 5 : 15;
  YONDER_TRY(pair, Pair::start({.provider = provider}, [&](TargetSide& side) -> Result<void> {
               YONDER_TRY(address, side.line().hear_text());
               YONDER_TRY(key, side.line().hear_text());
               const fabric::RegionToken token{
                   .key = {std::stoull(key)}, .length = bytes, .rights = fabric::Rights::kRead};
               for (int i = 0; i < rounds; ++i) {
                 YONDER_TRY(raw, raw_bandwidth(side, address, token));
                 YONDER_TRY_VOID(side.line().say(raw));
                 YONDER_TRY(pulled, pull_bandwidth(side));
                 YONDER_TRY_VOID(side.line().say(pulled));
               }
               return {};
             }));
  YONDER_TRY(file, os::Memfd::create({.size = bytes}));
  YONDER_TRY(memory,
             os::Mapping::of_file(file.fd(), {.bytes = bytes, .protection = os::Protection::kReadWrite}));
  std::memset(memory.data(), 1, bytes);
  YONDER_TRY(region, pair->fabric().register_memory(
                         {.memory = memory.bytes(), .backing = fabric::Backing{.fd = file.fd().get()}}));
  const std::string address = provider == "tcp" ? "tcp://127.0.0.1:0" : "shm:";
  YONDER_TRY(listener, pair->fabric().listen({.address = address, .passive = true}));
  YONDER_TRY_VOID(pair->line().say_text(listener->address()));
  YONDER_TRY_VOID(pair->line().say_text(std::to_string(region.token().key.value)));
  std::vector<double> ratios;
  std::vector<double> pulls;
  for (int i = 0; i < rounds; ++i) {
    YONDER_TRY(segment, pair->agent().allocate(Bytes(bytes)));
    std::memset(segment.memory.data(), 2, bytes);
    YONDER_TRY_VOID(pair->agent().connect(segment.id, pair->target()));
    YONDER_TRY(raw, pair->line().hear());
    YONDER_TRY_VOID(pair->agent().transfer(segment.id));
    YONDER_TRY(pulled, pair->line().hear());
    ratios.push_back(pulled / raw);
    pulls.push_back(pulled);
  }
  YONDER_TRY_VOID(pair->finish());
  report.ratio("pull_vs_link_" + provider, ratios);
  if (is_main(provider, options)) report.ratio("pull_vs_link", ratios);
  report.result("pull_gb_per_s_" + provider, median(pulls) / 1e9);
  return {};
}

}  // namespace yonder::bench
