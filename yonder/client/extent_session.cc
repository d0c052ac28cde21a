#include "yonder/client/extent_session.h"

#include <utility>

#include "yonder/node/protocol.h"

namespace yonder::client {

using fabric::RegionToken;
using fabric::Task;
using node::protocol::DropExtent;
using node::protocol::MakeExtent;
using node::protocol::OpenExtent;

Result<std::unique_ptr<ExtentSession>> ExtentSession::connect(fabric::Fabric& fabric,
                                                              const ExtentSessionOptions& options) {
  if (options.scheduler != nullptr && options.queue == nullptr) {
    return fail(ErrorCode::kInvalidArgument, "connect to extents: a scheduler without its queue");
  }
  std::unique_ptr<ExtentSession> session(new ExtentSession);
  fabric::CompletionQueue* queue = options.queue;
  if (queue == nullptr) {
    YONDER_TRY(made, fabric.create_completion_queue({}));
    session->own_queue_ = std::move(made);
    queue = session->own_queue_.get();
  }
  session->scheduler_ = options.scheduler;
  if (session->scheduler_ == nullptr) {
    session->own_scheduler_ = std::make_unique<fabric::Scheduler>(*queue);
    session->scheduler_ = session->own_scheduler_.get();
  }
  // A few requests and short answers: the endpoint is for the one-sided ones.
  const rpc::ClientOptions rpc{.max_outstanding = 4,
                               .one_sided_depth = options.depth,
                               .max_response = 64,
                               .default_timeout = options.timeout,
                               .tenant = options.identity.tenant,
                               .epoch = options.identity.epoch,
                               .same_greeting = true,
                               .scheduler = session->scheduler_};
  YONDER_TRY(client, rpc::Client::connect(fabric, options.address, *queue, rpc));
  session->rpc_ = std::move(client);
  return session;
}

ExtentSession::~ExtentSession() = default;

Task<Result<RegionToken>> ExtentSession::async_create(std::string name, std::uint64_t bytes,
                                                      Deadline deadline) {
  const auto answer = co_await rpc_->call<MakeExtent>({.name = name, .bytes = bytes}, deadline);
  if (!answer) co_return std::unexpected(answer.error());
  co_return answer->token;
}

Task<Result<RegionToken>> ExtentSession::async_open(std::string name, Deadline deadline) {
  const auto answer = co_await rpc_->call<OpenExtent>({.name = name}, deadline);
  if (!answer) co_return std::unexpected(answer.error());
  co_return answer->token;
}

Task<Result<RegionToken>> ExtentSession::async_open_or_create(std::string name, std::uint64_t bytes,
                                                              Deadline deadline) {
  const Result<RegionToken> made = co_await async_create(name, bytes, deadline);
  if (made || made.error() != ErrorCode::kAlreadyExists) co_return made;
  co_return co_await async_open(std::move(name), deadline);
}

Task<Result<void>> ExtentSession::async_remove(std::string name, Deadline deadline) {
  const auto answer = co_await rpc_->call<DropExtent>({.name = name}, deadline);
  if (!answer) co_return std::unexpected(answer.error());
  co_return Result<void>();
}

Result<RegionToken> ExtentSession::create(std::string name, std::uint64_t bytes, Deadline deadline) {
  return scheduler_->block_on(async_create(std::move(name), bytes, deadline));
}
Result<RegionToken> ExtentSession::open(std::string name, Deadline deadline) {
  return scheduler_->block_on(async_open(std::move(name), deadline));
}
Result<RegionToken> ExtentSession::open_or_create(std::string name, std::uint64_t bytes, Deadline deadline) {
  return scheduler_->block_on(async_open_or_create(std::move(name), bytes, deadline));
}
Result<void> ExtentSession::remove(std::string name, Deadline deadline) {
  return scheduler_->block_on(async_remove(std::move(name), deadline));
}

}  // namespace yonder::client
