#pragma once
// OffloadSession: a program's way to the functions of one memory node.
//
//   auto session = client::OffloadSession::connect(fabric, {.address = "tcp://node-1:7400"});
//   auto result = (*session)->call({.extent = "orders", .address = …, .function = "df.copy",
//                                   .version = 1, .arguments = bytes, .time = 100ms});
//
// A function runs on the node, in a process of its own, on an extent that is mapped there at
// the address that the caller names (offload/host.h). heap/offload_space.h is what programs
// use; this is the bare request.
//
// A call comes blocking and as a coroutine. With a queue and a scheduler of the caller's, many
// calls of one thread are under way at once, at most `depth` on the way: others wait their turn.
//
// Concurrency: one thread at a time, the one that uses the queue. Blocking calls must not be
// made inside a coroutine of the same scheduler.
// Lifetime: the fabric (and queue and scheduler, if they are given) outlive the session; tasks
// end before it.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/fabric/fabric.h"
#include "yonder/fabric/scheduler.h"
#include "yonder/fabric/task.h"
#include "yonder/rpc/client.h"

namespace yonder::client {

struct OffloadSessionOptions {
  std::string address;
  fabric::Identity identity;
  Duration timeout = std::chrono::seconds(5);  // Of connecting.
  std::uint32_t depth = 1;                     // Calls under way.
  // To share with other sessions of the thread; null: the session's own.
  fabric::CompletionQueue* queue = nullptr;
  fabric::Scheduler* scheduler = nullptr;  // Of that queue.
};

struct FunctionCall {
  std::string_view extent;
  std::uint64_t address = 0;
  std::string_view function;  // "LIBRARY.FUNCTION"
  std::uint32_t version = 0;
  std::span<const std::byte> arguments;
  // How long it may take on the node, which ends it then.
  Duration time = std::chrono::seconds(1);
  // When we stop waiting; default: `time` from now and what a message may take besides.
  Deadline deadline;
};

class OffloadSession {
 public:
  // How much longer than the function may take its answer is waited for.
  static constexpr Duration kGrace = std::chrono::seconds(3);

  // Errors of rpc::Client::connect; kInvalidArgument for a scheduler without its queue.
  static Result<std::unique_ptr<OffloadSession>> connect(fabric::Fabric& fabric,
                                                         const OffloadSessionOptions& options);
  ~OffloadSession();
  OffloadSession(const OffloadSession&) = delete;
  OffloadSession& operator=(const OffloadSession&) = delete;

  // What the function returned. Errors of the function: codes 600 to 606 (docs/errors.md),
  // kBadRequest (arguments of another length), kMessageTooLong (its result), kOverloaded,
  // kAlreadyExists (the address is taken there), kStopping: it does not run any more.
  // Of the request: kNotFound (no such extent), kUnsupported (a node without functions),
  // kInvalidArgument. Of the way: kDeadlineExceeded, kConnectionLost, kServerReplaced: it
  // may still run, at most until `time` has passed since the node got it.
  Result<std::vector<std::byte>> call(const FunctionCall& call);
  // What the call names (views) lives until the task has ended.
  fabric::Task<Result<std::vector<std::byte>>> async_call(FunctionCall call);

  // Whether after this error the function may still be running.
  static bool may_run_on(const Error& error);

 private:
  OffloadSession() = default;
  Deadline deadline_of(const FunctionCall& call) const;

  std::unique_ptr<fabric::CompletionQueue> own_queue_;
  fabric::CompletionQueue* queue_ = nullptr;
  rpc::ClientPtr rpc_;
};

}  // namespace yonder::client
