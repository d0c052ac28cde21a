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
// Concurrency: one thread at a time. Lifetime: the fabric outlives the session.

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
#include "yonder/rpc/client.h"

namespace yonder::client {

struct OffloadSessionOptions {
  std::string address;
  fabric::Identity identity;
  Duration timeout = std::chrono::seconds(5);  // Of connecting.
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

  // Errors of rpc::Client::connect.
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

  // Whether after this error the function may still be running.
  static bool may_run_on(const Error& error);

 private:
  OffloadSession() = default;

  std::unique_ptr<fabric::CompletionQueue> queue_;
  rpc::ClientPtr rpc_;
};

}  // namespace yonder::client
