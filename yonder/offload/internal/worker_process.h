#pragma once
// WorkerProcess: a worker from the host's side.
//
//   state      | ready             | answer         | hung up, or nonsense | deadline
//   -----------+-------------------+----------------+----------------------+----------
//   kStarting  | kIdle             | nonsense       | ended                | ended
//   kIdle      | nonsense          | nonsense       | ended                | –
//   kBusy      | nonsense          | kIdle          | ended                | ended
//
// *Ended* means: killed if need be, and waited for. So when the host says that a call has
// failed, nothing of it runs any more.
//
// Concurrency: the host's lock. Lifetime: the destructor kills.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/offload/host.h"
#include "yonder/offload/internal/messages.h"
#include "yonder/os/process.h"
#include "yonder/os/socket.h"

namespace yonder::offload::internal {

// What a worker is for: calls of the same place may share one.
struct Place {
  std::string memory;
  std::uint64_t address = 0;
  std::string library;
  friend bool operator==(const Place&, const Place&) = default;
};

struct Job {
  Place place;
  FunctionName name;
  std::uint32_t version = 0;
  std::vector<std::byte> arguments;
  Deadline deadline;
  OpenMemory open_memory;
  Done done;
};

class WorkerProcess {
 public:
  enum class State : std::uint8_t { kStarting, kIdle, kBusy };

  struct StartOptions {
    std::string program;
    std::uint64_t memory_limit = 0;
    Deadline deadline;
  };
  // Starts the program and tells it what it is for. kStarting.
  static Result<std::unique_ptr<WorkerProcess>> start(const StartOptions& options, const MemoryFile& memory,
                                                      const os::Fd& library, Place place);

  State state() const { return state_; }
  const Place& place() const { return place_; }
  const os::Fd& socket() const { return socket_.fd(); }
  Deadline deadline() const { return deadline_; }
  Instant idle_since() const { return idle_since_; }
  // The job it runs, if it is busy.
  std::optional<Job>& job() { return job_; }

  // Requires kIdle. Gives the job to it; false: the worker has hung up, and has the job.
  bool give(Job job);
  // A message, if there is one. Errors: kConnectionLost (hung up), kMalformedFrame.
  // The reply's bytes lie in `buffer`.
  Result<std::optional<Reply>> receive(std::span<std::byte> buffer);
  void become_idle(Instant now);

  // Kills it if it still runs, and returns how it ended.
  os::ExitStatus end(bool by_force);

 private:
  WorkerProcess(os::Child child, os::Socket socket, Place place, Deadline deadline)
      : child_(std::move(child)), socket_(std::move(socket)), place_(std::move(place)), deadline_(deadline) {}

  os::Child child_;
  os::Socket socket_;
  const Place place_;
  State state_ = State::kStarting;
  Deadline deadline_;  // Of starting, or of the job.
  Instant idle_since_;
  std::uint64_t calls_ = 0;
  std::optional<Job> job_;
};

}  // namespace yonder::offload::internal
