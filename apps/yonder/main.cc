// yonder: the command line. Flags and dispatch only; what a command does is in
// its own file.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <fstream>
#include <string>

#include "apps/yonder/cluster.h"
#include "apps/yonder/compact.h"
#include "apps/yonder/demo.h"
#include "apps/yonder/doctor.h"
#include "apps/yonder/run.h"
#include "bench/all.h"
#include "bench/harness/target_process.h"

namespace {

using yonder::Result;

std::string own_path() {
  std::array<char, 4096> path;
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  return length > 0 ? std::string(path.data(), static_cast<std::size_t>(length)) : "yonder";
}

int report(const Result<void>& result) {
  if (result) return 0;
  const yonder::Error& error = result.error();
  fmt::print(stderr, "yonder: {}\n        {}\n", error.to_string(), yonder::error_remedy(error.code()));
  return 1;
}

int list_benchmarks() {
  for (const auto& benchmark : yonder::bench::all_benchmarks()) {
    fmt::print("{:<16} {}\n", benchmark.name, benchmark.summary);
  }
  return 0;
}

int write_json(const std::string& path, const std::string& json) {
  if (path == "-") {
    fmt::print("{}\n", json);
    return 0;
  }
  std::ofstream file(path);
  file << json << '\n';
  if (file.flush()) return 0;
  fmt::print(stderr, "yonder: cannot write {}\n", path);
  return 1;
}

int run_benchmark(const std::string& name, const std::string& json, const yonder::bench::Options& options) {
  for (const auto& benchmark : yonder::bench::all_benchmarks()) {
    if (benchmark.name != name) continue;
    yonder::bench::Report results(name);
    results.set_fabric(options.fabric);
    if (const int failed = report(benchmark.run(options, results)); failed != 0) return failed;
    fmt::print(stderr, "{}", results.to_text());
    return json.empty() ? 0 : write_json(json, results.to_json());
  }
  fmt::print(stderr, "yonder: there is no benchmark {}; `yonder bench --list` names them\n", name);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Yonder: memory that lives elsewhere"};
  app.set_version_flag("--version", YONDER_VERSION);
  app.require_subcommand(1);

  yonder::apps::DemoOptions demo{.program = own_path()};
  CLI::App* demo_command =
      app.add_subcommand("demo", "move data one-sidedly between two processes and show the times");
  demo_command->add_option("--reads", demo.reads, "reads per provider and size")
      ->check(CLI::Range(1, 100'000'000));

  CLI::App* doctor_command = app.add_subcommand("doctor", "say what this machine can do");

  yonder::apps::CompactOptions compact;
  CLI::App* compact_command = app.add_subcommand("compact", "make a running yonderd compact its memory");
  compact_command->add_option("--admin", compact.admin, "host and port of its admin endpoint");
  compact_command->add_flag("--dry-run", compact.dry_run, "only say what would be freed");

  yonder::apps::MigrateOptions migrate;
  CLI::App* migrate_command = app.add_subcommand("migrate", "move a part of a running cluster");
  CLI::App* migrate_partition = migrate_command->add_subcommand("partition", "of an rcached cluster");
  migrate_command->require_subcommand(1);
  migrate_partition->add_option("number", migrate.partition, "which")->required();
  migrate_partition->add_option("--to", migrate.to, "host:port where the target serves clients")->required();
  migrate_partition->add_option("--admin", migrate.admin, "admin endpoint of any server of the cluster");

  yonder::apps::RebalanceOptions rebalance;
  CLI::App* rebalance_command =
      app.add_subcommand("rebalance", "say which partitions of an rcached cluster should move");
  rebalance_command->add_option("--admin", rebalance.admin, "admin endpoint of any server of the cluster");
  rebalance_command->add_flag("--apply", rebalance.apply, "and move them");
  rebalance_command->add_flag("--json", rebalance.json, "for programs");

  yonder::apps::JobsOptions jobs;
  CLI::App* jobs_command = app.add_subcommand("jobs", "moves of partitions that were asked for");
  jobs_command->add_option("--admin", jobs.admin, "admin endpoint of any server of the cluster");
  jobs_command->add_option("--cancel", jobs.cancel, "a job that has not begun");
  jobs_command->add_option("--roll-back", jobs.roll_back, "a job that is done");
  jobs_command->add_flag("--pause", jobs.pause, "those that have not begun wait");
  jobs_command->add_flag("--resume", jobs.resume, "and go on");
  jobs_command->add_flag("--json", jobs.json, "for programs");

  yonder::apps::DrainOptions drain;
  CLI::App* drain_command =
      app.add_subcommand("drain", "move all partitions away from an rcached, before it is stopped");
  drain_command->add_option("--admin", drain.admin, "admin endpoint of that server")->required();

  yonder::apps::RunOptions run{.program = own_path()};
  CLI::App* run_command = app.add_subcommand("run", "run a program, unmodified, with far memory");
  run_command->add_option("--local", run.local,
                          "how much of it may be in local memory: bytes, or a share of --far");
  run_command->add_option("--far", run.far,
                          "how much memory it has in all (this machine's memory if not given)");
  run_command->add_option("--node", run.node, "where yonderd listens (memory of this machine if not given)");
  run_command->add_option("--stats", run.stats, "append a line of statistics to this file at the end");
  run_command->add_option("--library", run.library, "libyonder_preload.so, if it is not beside this program");
  run_command->add_option("command", run.command, "-- program and arguments")->required();

  yonder::bench::Options bench{.program = own_path()};
  std::string bench_name;
  std::string json;
  bool list = false;
  std::vector<std::string> settings;
  CLI::App* bench_command = app.add_subcommand("bench", "measure, side by side with the raw limit");
  bench_command->add_option("name", bench_name, "which benchmark");
  bench_command->add_flag("--list", list, "name the benchmarks");
  bench_command->add_option("--fabric", bench.fabric, "shm, tcp, verbs, sim or all")
      ->check(CLI::IsMember({"all", "shm", "tcp", "verbs", "sim"}));
  bench_command->add_flag("--quick", bench.quick, "end within a minute");
  bench_command->add_option("--seed", bench.seed, "seed of everything random");
  for (const auto& [flag, parameter] : {std::pair{"--trace", "trace"},
                                        {"--threads", "threads"},
                                        {"--pause-us", "pause_us"},
                                        {"--keys", "keys"},
                                        {"--connections", "connections"},
                                        {"--experiment", "experiment"},
                                        {"--rounds", "rounds"},
                                        {"--workload", "workload"},
                                        {"--local", "local"}}) {
    bench_command->add_option_function<std::string>(
        flag, [&bench, name = parameter](const std::string& value) { bench.parameters[name] = value; },
        "for the benchmarks that say so");
  }
  bench_command
      ->add_option_function<std::vector<std::string>>(
          "--set",
          [&bench](const std::vector<std::string>& pairs) {
            for (const std::string& pair : pairs) {
              const std::size_t at = pair.find('=');
              if (at == std::string::npos) throw CLI::ValidationError("--set", "is key=value");
              bench.parameters[pair.substr(0, at)] = pair.substr(at + 1);
            }
          },
          "key=value, for the benchmarks that say so")
      ->allow_extra_args(false);
  bench_command->add_option("--json", json, "write the report to this file (- for standard output)");

  yonder::bench::ServeOptions serve;
  std::uint64_t serve_bytes = serve.memory.count();
  CLI::App* serve_command =
      app.add_subcommand("serve-memory", "lend memory until standard input ends (used by demo)");
  serve_command->group("");  // Hidden: users run yonderd.
  serve_command->add_option("--memory", serve_bytes, "bytes");
  serve_command->add_option("addresses", serve.addresses, "where to listen")->required();

  CLI11_PARSE(app, argc, argv);

  if (demo_command->parsed()) return report(yonder::apps::run_demo(demo));
  if (compact_command->parsed()) return report(yonder::apps::run_compact(compact));
  if (migrate_partition->parsed()) return yonder::apps::run_migrate(migrate);
  if (rebalance_command->parsed()) return yonder::apps::run_rebalance(rebalance);
  if (jobs_command->parsed()) return yonder::apps::run_jobs(jobs);
  if (drain_command->parsed()) return yonder::apps::run_drain(drain);
  if (run_command->parsed()) return report(yonder::apps::run_program(run));
  if (doctor_command->parsed()) return yonder::apps::run_doctor();
  if (serve_command->parsed()) {
    serve.memory = yonder::Bytes(serve_bytes);
    return report(yonder::bench::serve_memory(serve));
  }
  if (list || bench_name.empty()) return list_benchmarks();
  return run_benchmark(bench_name, json, bench);
}
