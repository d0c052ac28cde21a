#include "bench/heap/redis_bench.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bench/heap/swap.h"
#include "yonder/os/fd.h"
#include "yonder/os/free_port.h"
#include "yonder/os/mapping.h"
#include "yonder/os/process.h"
#include "yonder/os/steady_clock.h"

namespace yonder::bench {
namespace {

namespace fs = std::filesystem;

struct Sizes {
  std::uint64_t keys;
  std::uint64_t local_bytes;  // About half of what the keys and their values take.
  std::uint64_t requests;     // Of a round.
  int rounds;
};

constexpr std::uint64_t kValueBytes = 1000;
// What redis 7 needs for a key and such a value, with our allocator or jemalloc.
constexpr std::uint64_t kBytesPerKey = 1150;

// A cgroup counts what it has charged in advance (64 pages for each processor) and the kernel's
// memory, our budget does not: the baseline has that much more. The pages of the program's files are
// charged to nobody: another server has brought them before. (RssAnon of the two is in the report.)
constexpr std::uint64_t kExtraBytes = 1 << 20;

// What is stored. redis-benchmark's own values are one letter a thousand times over, which a
// compressed swap device takes for next to nothing. Ours are like what caches hold: records with the
// same names, and words and numbers that differ; lz4 makes a third of them.
// redis-benchmark draws a number for each __rand_int__.
std::string text_value() {
  constexpr std::array kWords = {"amount",  "before", "country", "during",  "evening", "forward",  "garden",
                                 "history", "island", "journey", "kitchen", "letter",  "mountain", "nothing",
                                 "orange",  "paper",  "quarter", "river",   "summer",  "table"};
  std::string value = "{\"id\":__rand_int__";
  for (std::size_t i = 0;; ++i) {
    const std::string field =
        fmt::format(",\"{}{}\":\"{} __rand_int__ {}\"", kWords[(i * 7 + 3) % kWords.size()], i,
                    kWords[(i * 11 + 5) % kWords.size()], kWords[(i * 13 + 1) % kWords.size()]);
    if (value.size() + field.size() + 1 > kValueBytes) break;
    value += field;
  }
  value.resize(kValueBytes - 1, ' ');
  return value + "}";
}

Sizes sizes_of(const Options& options) {
  const std::uint64_t keys = options.quick ? 40'000 : 200'000;
  return {.keys = keys,
          .local_bytes = keys * kBytesPerKey / 2,
          .requests = options.quick ? 10'000U : 30'000U,
          .rounds = options.quick ? 2 : 5};
}

class Folder {
 public:
  Folder() {
    std::string name = "/tmp/yonder-redis-XXXXXX";
    if (::mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Deadline soon() { return Deadline::at(os::SteadyClock::read() + std::chrono::seconds(120)); }

// What a program wrote, and that it ended well.
Result<std::string> output_of(const std::vector<std::string>& command) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno("pipe");
  const os::Fd from(ends[0]);
  os::Fd to(ends[1]);
  YONDER_TRY(child, os::Child::spawn({.argv = command, .stdout_fd = to.get(), .stderr_fd = to.get()}));
  to.reset();
  std::string text;
  std::array<char, 4096> piece;
  for (ssize_t got = 0; (got = ::read(from.get(), piece.data(), piece.size())) > 0;) {
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
  YONDER_TRY(status, child.wait(soon()));
  if (!status.success()) return fail(ErrorCode::kOsError, "redis-benchmark failed", status.value);
  return text;
}

class Server {
 public:
  // `prefix` runs it; the folder takes its log; without a value those of redis-benchmark are set.
  static Result<Server> start(const std::vector<std::string>& prefix, const std::string& folder,
                              const char* name, const std::string& value) {
    YONDER_TRY(place, os::free_port());
    const int port = place.port();
    std::vector<std::string> command = prefix;
    for (const std::string& word :
         {std::string("redis-server"), std::string("--port"), std::to_string(port), std::string("--bind"),
          std::string("127.0.0.1"), std::string("--save"), std::string(), std::string("--dir"), folder,
          std::string("--logfile"), fmt::format("{}/{}.log", folder, name)}) {
      command.push_back(word);
    }
    YONDER_TRY(child, os::Child::spawn({.argv = command}));
    Server server(std::move(child), port, value);
    YONDER_TRY_VOID(server.wait_until_ready());
    return server;
  }

  Result<void> fill(const Sizes& sizes) {
    // Drawn keys: three times as many requests leave one key in twenty unset.
    return outcome_of(load("set", sizes, sizes.keys * 3, 32));
  }
  // Requests per second.
  Result<double> measure(const char* test, const Sizes& sizes, int pipeline) {
    return load(test, sizes, pipeline == 1 ? sizes.requests : 3 * sizes.requests, pipeline);
  }
  // Its private memory that is here.
  double resident_bytes() const {
    std::ifstream status(fmt::format("/proc/{}/status", child_.pid()));
    for (std::string name; status >> name;) {
      if (double kib = 0; name == "RssAnon:" && status >> kib) return kib * 1024;
    }
    return 0;
  }

 private:
  Server(os::Child child, int port, std::string value)
      : child_(std::move(child)), port_(port), value_(std::move(value)) {}

  Result<void> wait_until_ready() {
    const Deadline deadline = soon();
    while (!deadline.passed(os::SteadyClock::read())) {
      if (const auto answer = output_of({"redis-cli", "-p", std::to_string(port_), "ping"});
          answer && answer->starts_with("PONG")) {
        return {};
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return fail(ErrorCode::kDeadlineExceeded, "redis-server does not answer");
  }

  Result<double> load(const char* test, const Sizes& sizes, std::uint64_t requests, int pipeline) {
    std::vector<std::string> command = {"redis-benchmark",
                                        "-p",
                                        std::to_string(port_),
                                        "-r",
                                        std::to_string(sizes.keys),
                                        "-n",
                                        std::to_string(requests),
                                        "-P",
                                        std::to_string(pipeline),
                                        "-c",
                                        "50",
                                        "--csv"};
    const bool sets_ours = std::string_view(test) == "set" && !value_.empty();
    const std::vector<std::string> what =
        sets_ours ? std::vector<std::string>{"SET", "key:__rand_int__", value_}
                  : std::vector<std::string>{"-t", test, "-d", std::to_string(kValueBytes)};
    command.insert(command.end(), what.begin(), what.end());
    YONDER_TRY(text, output_of(command));
    // "SET …","12345.67","…", six more: in the last line. Commands may contain commas and quotes.
    std::size_t start = text.size();
    for (int field = 0; field < 7 && start != std::string::npos && start > 0; ++field)
      start = text.rfind(",\"", start - 1);
    double rate = 0;
    if (start == std::string::npos ||
        std::from_chars(text.data() + start + 2, text.data() + text.size(), rate).ec != std::errc()) {
      return fail(ErrorCode::kCorrupt, "redis-benchmark's report");
    }
    return rate;
  }

  os::Child child_;
  int port_;
  std::string value_;
};

// One request at a time for a client, and many: then memory is more of the work, and the
// kernel's way from one process to the other is less.
constexpr std::array kPipelines = {1, 16};

struct Rates {
  std::array<std::vector<double>, kPipelines.size()> get;
  std::array<std::vector<double>, kPipelines.size()> set;
};

Result<void> one_round(Server& server, const Sizes& sizes, Rates& rates) {
  for (std::size_t i = 0; i < kPipelines.size(); ++i) {
    YONDER_TRY(get, server.measure("get", sizes, kPipelines[i]));
    YONDER_TRY(set, server.measure("set", sizes, kPipelines[i]));
    rates.get[i].push_back(get);
    rates.set[i].push_back(set);
  }
  return {};
}

std::vector<double> quotients(const std::vector<double>& ours, const std::vector<double>& theirs) {
  std::vector<double> out;
  for (std::size_t i = 0; i < ours.size(); ++i) out.push_back(ours[i] / theirs[i]);
  return out;
}

void tell_rates(Report& report, const std::string& who, const Rates& rates) {
  for (std::size_t i = 0; i < kPipelines.size(); ++i) {
    const std::string suffix = i == 0 ? "" : "_pipelined";
    report.result(who + "get" + suffix + "_per_s", median(rates.get[i]));
    report.result(who + "set" + suffix + "_per_s", median(rates.set[i]));
  }
}

void tell_ratios(Report& report, const Rates& ours, const Rates& theirs, const std::string& whom) {
  for (std::size_t i = 0; i < kPipelines.size(); ++i) {
    const std::string prefix = i == 0 ? "redis" : "redis_pipelined";
    const std::vector<double> get = quotients(ours.get[i], theirs.get[i]);
    const std::vector<double> set = quotients(ours.set[i], theirs.set[i]);
    report.ratio(prefix + "_get_vs_" + whom, get);
    report.ratio(prefix + "_set_vs_" + whom, set);
    std::vector<double> both;
    for (std::size_t round = 0; round < get.size(); ++round)
      both.push_back(std::sqrt(get[round] * set[round]));
    report.ratio(prefix + "_vs_" + whom, both);
  }
}

// Swap is a matter of the whole machine, and some kernels do not survive it: with --quick only if
// it is asked for.
Result<heap::SwapBed> swap_baseline(const Options& options, Bytes limit, Bytes device) {
  if (options.quick && !options.parameters.contains("swap"))
    return fail(ErrorCode::kUnsupported, "heap-redis bench: not with --quick, unless --set swap=on");
  return heap::SwapBed::create({.limit = limit, .device = device});
}

}  // namespace

Result<void> run_redis_bench(const Options& options, Report& report) {
  const Sizes sizes = sizes_of(options);
  report.param("keys", static_cast<double>(sizes.keys));
  report.param("value_bytes", static_cast<double>(kValueBytes));
  const auto kind = options.parameters.find("values");
  const bool are_same = kind != options.parameters.end() && kind->second == "same";
  const std::string value = are_same ? "" : text_value();
  report.param("values", are_same ? "same" : "text");
  report.param("swap_extra_bytes", static_cast<double>(kExtraBytes));
  report.param("local_bytes", static_cast<double>(sizes.local_bytes));
  const Folder folder;
  const std::uint64_t far = sizes.keys * kBytesPerKey * 2;
  const Bytes local(sizes.local_bytes);
  auto cage = swap_baseline(options, Bytes(local.count() + kExtraBytes), Bytes(far));
  if (!cage) report.param("no_swap_baseline", cage.error().to_string());

  YONDER_TRY(ours, Server::start({options.program, "run", "--far", std::to_string(far), "--local",
                                  std::to_string(local.count()), "--"},
                                 folder.path(), "ours", value));
  YONDER_TRY_VOID(ours.fill(sizes));
  YONDER_TRY(plain, Server::start({}, folder.path(), "plain", value));
  YONDER_TRY_VOID(plain.fill(sizes));
  std::optional<Server> swap;
  if (cage) {
    auto server = Server::start(cage->caged({}), folder.path(), "swap", value);
    const Result<void> filled = server ? server->fill(sizes) : outcome_of(server);
    if (filled) {
      swap.emplace(std::move(*server));
    } else {
      report.param("no_swap_baseline", filled.error().to_string());
    }
  }
  Rates our_rates;
  Rates plain_rates;
  Rates swap_rates;
  for (int round = 0; round < sizes.rounds; ++round) {
    // Who goes first alternates, so that a drift of the machine hits both alike.
    if (swap && round % 2 == 1) YONDER_TRY_VOID(one_round(*swap, sizes, swap_rates));
    YONDER_TRY_VOID(one_round(ours, sizes, our_rates));
    if (swap && round % 2 == 0) YONDER_TRY_VOID(one_round(*swap, sizes, swap_rates));
    YONDER_TRY_VOID(one_round(plain, sizes, plain_rates));
  }
  report.result("resident_bytes", ours.resident_bytes());
  if (swap) report.result("swap_resident_bytes", swap->resident_bytes());
  tell_rates(report, "", our_rates);
  tell_rates(report, "plain_", plain_rates);
  tell_ratios(report, our_rates, plain_rates, "plain");
  if (swap) {
    tell_rates(report, "swap_", swap_rates);
    tell_ratios(report, our_rates, swap_rates, "swap");
  }
  swap.reset();  // Before its cage.
  return {};
}

}  // namespace yonder::bench
