#include "yonder/client/offload_session.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "yonder/node/offload_protocol.h"

namespace yonder::client {

using node::protocol::CallFunction;
using node::protocol::CallFunctionAnswer;

namespace {

Result<node::protocol::CallFunctionRequest> request_of(const FunctionCall& call) {
  if (call.time <= Duration(0)) return fail(ErrorCode::kInvalidArgument, "offload: a function takes time");
  const auto time_us = std::chrono::ceil<std::chrono::microseconds>(call.time).count();
  return node::protocol::CallFunctionRequest{.extent = call.extent,
                                             .address = call.address,
                                             .function = call.function,
                                             .version = call.version,
                                             .time_us = static_cast<std::uint64_t>(time_us),
                                             .arguments = call.arguments};
}

Result<std::vector<std::byte>> result_of(Result<CallFunctionAnswer> answer) {
  if (!answer) return std::unexpected(answer.error());
  if (answer->code == ErrorCode::kOk) return std::move(answer->result);
  return fail(answer->code, "offload: call a function", answer->detail);
}

}  // namespace

Result<std::unique_ptr<OffloadSession>> OffloadSession::connect(fabric::Fabric& fabric,
                                                                const OffloadSessionOptions& options) {
  if (options.scheduler != nullptr && options.queue == nullptr)
    return fail(ErrorCode::kInvalidArgument, "connect to functions: a scheduler without its queue");
  std::unique_ptr<OffloadSession> session(new OffloadSession);
  session->queue_ = options.queue;
  if (session->queue_ == nullptr) {
    // A function takes longer than it is worth to spin for, and others may need the core.
    YONDER_TRY(queue, fabric.create_completion_queue({.spin = std::chrono::microseconds(5)}));
    session->own_queue_ = std::move(queue);
    session->queue_ = session->own_queue_.get();
  }
  // Rounded down to a power of two by the client: so from above.
  static_assert(CallFunctionAnswer::kMaxBytes <= 16 * 1024);
  YONDER_TRY(client, rpc::Client::connect(fabric, options.address, *session->queue_,
                                          {.max_outstanding = options.depth,
                                           .max_response = 16 * 1024,
                                           .default_timeout = options.timeout,
                                           .connect_timeout = options.timeout,
                                           .tenant = options.identity.tenant,
                                           .epoch = options.identity.epoch,
                                           .same_greeting = true,
                                           .scheduler = options.scheduler}));
  session->rpc_ = std::move(client);
  return session;
}

OffloadSession::~OffloadSession() = default;

Deadline OffloadSession::deadline_of(const FunctionCall& call) const {
  return call.deadline.or_default(Deadline::after(queue_->clock(), call.time + kGrace));
}

Result<std::vector<std::byte>> OffloadSession::call(const FunctionCall& call) {
  YONDER_TRY(request, request_of(call));
  return result_of(rpc_->call<CallFunction>(request, deadline_of(call)).wait());
}

fabric::Task<Result<std::vector<std::byte>>> OffloadSession::async_call(FunctionCall call) {
  const auto request = request_of(call);
  if (!request) co_return std::unexpected(request.error());
  co_return result_of(co_await rpc_->call<CallFunction>(*request, deadline_of(call)));
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
