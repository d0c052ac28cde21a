#include "bench/migrate/migrate_bench.h"

#include "bench/migrate/experiments.h"
#include "yonder/os/steady_clock.h"

namespace yonder::bench {

MigrateValue value_of(std::uint64_t key) {
  MigrateValue value;
  value.fill(key * 0x9e3779b97f4a7c15);
  return value;
}

bool is_local(segment::Agent& agent) {
  for (const segment::Migration& migration : agent.migrations()) {
    if (migration.bytes_left > 0) return false;
  }
  return true;
}

Deadline soon() { return Deadline::at(os::SteadyClock::read() + std::chrono::seconds(60)); }

bool is_main(const std::string& provider, const Options& options) {
  return provider == "shm" || options.fabric == provider;
}

Result<void> run_migrate_bench(const Options& options, Report& report) {
  report.param("map_entries", static_cast<double>(kMapEntries));
  const auto wanted = options.parameters.find("part");
  const auto wants = [&](std::string_view part) {
    return wanted == options.parameters.end() || wanted->second == part;
  };
  if (wants("container")) YONDER_TRY_VOID(report_container(options, report));
  for (const char* provider : {"shm", "tcp"}) {
    if (!options.wants(provider)) continue;
    if (wants("pauses")) YONDER_TRY_VOID(report_pauses(provider, options, report));
    if (wants("access")) YONDER_TRY_VOID(report_access(provider, options, report));
    if (wants("bandwidth")) YONDER_TRY_VOID(report_bandwidth(provider, options, report));
    if (wants("source")) YONDER_TRY_VOID(report_source(provider, options, report));
  }
  return {};
}

}  // namespace yonder::bench
