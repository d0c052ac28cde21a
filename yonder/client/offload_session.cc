#include "yonder/client/offload_session.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "yonder/node/offload_protocol.h"

namespace yonder::client {

using node::protocol::CallFunction;
using node::protocol::CallFunctionAnswer;

Result<std::unique_ptr<OffloadSession>> OffloadSession::connect(fabric::Fabric& fabric,
                                                                const OffloadSessionOptions& options) {
  std::unique_ptr<OffloadSession> session(new OffloadSession);
  // A function takes longer than it is worth to spin for, and others may need the core.
  YONDER_TRY(queue, fabric.create_completion_queue({.spin = std::chrono::microseconds(5)}));
  session->queue_ = std::move(queue);
  // Rounded down to a power of two by the client: so from above.
  static_assert(CallFunctionAnswer::kMaxBytes <= 16 * 1024);
  YONDER_TRY(client, rpc::Client::connect(fabric, options.address, *session->queue_,
                                          {.max_outstanding = 1,
                                           .max_response = 16 * 1024,
                                           .default_timeout = options.timeout,
                                           .connect_timeout = options.timeout,
                                           .tenant = options.identity.tenant,
                                           .epoch = options.identity.epoch,
                                           .same_greeting = true}));
  session->rpc_ = std::move(client);
  return session;
}

OffloadSession::~OffloadSession() = default;

Result<std::vector<std::byte>> OffloadSession::call(const FunctionCall& call) {
  if (call.time <= Duration(0)) return fail(ErrorCode::kInvalidArgument, "offload: a function takes time");
  const Deadline deadline = call.deadline.or_default(Deadline::after(queue_->clock(), call.time + kGrace));
  const auto time_us = std::chrono::ceil<std::chrono::microseconds>(call.time).count();
  YONDER_TRY(answer, rpc_->call<CallFunction>({.extent = call.extent,
                                               .address = call.address,
                                               .function = call.function,
                                               .version = call.version,
                                               .time_us = static_cast<std::uint64_t>(time_us),
                                               .arguments = call.arguments},
                                              deadline)
                         .wait());
  if (answer.code == ErrorCode::kOk) return std::move(answer.result);
  return fail(answer.code, "offload: call a function", answer.detail);
}

bool OffloadSession::may_run_on(const Error& error) {
  switch (error.code()) {
    case ErrorCode::kDeadlineExceeded:
    case ErrorCode::kConnectionLost:
    case ErrorCode::kServerReplaced:
    case ErrorCode::kClosed:
      return true;
    default:
      return false;
  }
}

}  // namespace yonder::client
