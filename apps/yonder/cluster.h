#pragma once
// `yonder migrate`, `yonder rebalance`, `yonder jobs`, `yonder drain`: moves partitions of a
// running cluster of rcached, through the admin endpoint of any of its servers (drain: of the
// server that is to be emptied).
//
// Concurrency: one thread.

#include <cstdint>
#include <string>

namespace yonder::apps {

struct MigrateOptions {
  std::string admin = "127.0.0.1:11280";  // of any server: rcached --admin
  std::uint32_t partition = 0;
  std::string to;  // host:port where the target serves clients
};

struct RebalanceOptions {
  std::string admin = "127.0.0.1:11280";
  bool apply = false;  // else it only says what it would do
  bool json = false;   // print what the server answers, for programs
};

struct JobsOptions {
  std::string admin = "127.0.0.1:11280";
  std::uint64_t cancel = 0;     // a job that has not begun; 0: none
  std::uint64_t roll_back = 0;  // a job that is done; 0: none
  bool pause = false;
  bool resume = false;
  bool json = false;
};

struct DrainOptions {
  std::string admin = "127.0.0.1:11280";  // of the server whose partitions go
};

// All return the exit code, 0 or 1, after they have said what is wrong: nobody answers there, it
// is no rcached of a cluster, or what the cluster has against it.
int run_migrate(const MigrateOptions& options);
int run_rebalance(const RebalanceOptions& options);
int run_jobs(const JobsOptions& options);
int run_drain(const DrainOptions& options);

}  // namespace yonder::apps
