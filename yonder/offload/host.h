#pragma once
// Host: runs functions of libraries in processes of their own, on memory that is given to it.
//
//   auto host = Host::create({.directory = "/usr/lib/yonder/functions"});
//   (*host)->call({.function = "df.copy", .version = 1, .memory = "7/heap-1", .address = …,
//                  .arguments = bytes, .deadline = soon, .open_memory = …},
//                 [](const Outcome& outcome) { … });
//
// The host never loads a library itself. It starts a *worker* (worker.h) for a *place*: one
// client's memory, at one address, and one library. Workers stay for a while when they have
// nothing to do, so that most calls cost two wake-ups and no fork; there are at most
// `max_workers`, and one that is idle gives way to another place's. A call that finds none
// waits, at most `max_waiting` of them.
//
// Whatever a function does ends at the latest with its process:
//   it fails by itself                 kFunctionFailed, the detail is its number
//   it crashes, or exits               kFunctionCrashed, the detail is the signal or 0
//   it takes more memory than it may   kFunctionMemory (if it lets std::bad_alloc out)
//   it makes a forbidden system call   kFunctionForbidden, the detail is the call's number
//   it is not done at its deadline     kFunctionDeadline: killed
// and when the caller is told, nothing of the call runs any more. What it had written by
// then into the memory stays written.
//
// Concurrency: all functions from any thread. Outcomes are told by a thread of the host's,
// or by the caller's before call() returns; without a lock held.
// Lifetime: the destructor stops. open_memory of a call is called, if at all, before its done.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "yonder/base/id.h"
#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/os/fd.h"

namespace yonder::offload {

struct HostOptions {
  std::string directory;  // Where the libraries are.
  std::string program;    // The worker's; empty: yonder-offload, beside the running program.
  std::uint32_t max_workers = 8;
  std::uint32_t max_waiting = 128;
  Bytes memory = Bytes(std::uint64_t{256} << 20);  // What a function may have beside the client's memory.
  Duration max_time = std::chrono::seconds(60);    // Of a call, whatever the client says.
  Duration start_timeout = std::chrono::seconds(10);
  Duration idle_timeout = std::chrono::seconds(60);
};

// Memory to work on: the whole file.
struct MemoryFile {
  os::Fd file;
  std::uint64_t bytes = 0;
};
using OpenMemory = std::move_only_function<Result<MemoryFile>()>;

struct Outcome {
  ErrorCode code = ErrorCode::kOk;
  std::int64_t detail = 0;
  std::span<const std::byte> result;  // Lives as long as the call of Done.
};
using Done = std::move_only_function<void(const Outcome& outcome)>;

struct CallRequest {
  std::string_view function;  // "LIBRARY.FUNCTION"
  std::uint32_t version = 0;
  std::string memory;         // Which: equal names, equal memory.
  std::uint64_t address = 0;  // Where it has to be mapped; whole pages.
  std::span<const std::byte> arguments;
  Deadline deadline;  // Default: max_time.
  OpenMemory open_memory;
};

struct HostStats {
  std::uint64_t calls = 0;
  std::uint64_t failed = 0;   // Of these, however.
  std::uint64_t started = 0;  // Workers.
  std::uint64_t workers = 0;  // Now.
};

class Host {
 public:
  // kInvalidArgument (limits), kNotFound (no such directory, no such program).
  static Result<std::unique_ptr<Host>> create(const HostOptions& options);
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  // `done` is called once. Codes beside those above: kInvalidArgument (name, address,
  // length), kUnknownFunction, kFunctionVersion (the detail is the version that there is),
  // kBadRequest (arguments of another length), kMessageTooLong (the result),
  // kAlreadyExists (the worker has something else at that address), kOverloaded, kStopping,
  // kNotFound (the memory went), errors of open_memory and of starting processes.
  void call(CallRequest request, Done done);

  // Ends what works on that memory: when it returns no worker has it. Its calls get kNotFound.
  void forget(std::string_view memory);

  // Ends all; calls get kStopping, for ever. Idempotent.
  void stop();

  HostStats stats() const;

 private:
  class Parts;
  explicit Host(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
  std::thread watcher_;
};

}  // namespace yonder::offload
