#include "yonder/structures/join.h"

#include "yonder/structures/internal/join_run.h"

namespace yonder::structures {

JoinExecutor::JoinExecutor(fabric::Fabric& fabric, fabric::CompletionQueue& queue,
                           fabric::Scheduler& scheduler, const JoinOptions& options)
    : fabric_(fabric), queue_(queue), scheduler_(scheduler), options_(options) {}

JoinExecutor::~JoinExecutor() = default;

Result<std::unique_ptr<JoinExecutor>> JoinExecutor::create(fabric::Fabric& fabric,
                                                           fabric::CompletionQueue& queue,
                                                           fabric::Scheduler& scheduler,
                                                           const JoinOptions& options) {
  if (options.index >= options.executors)
    return fail(ErrorCode::kInvalidArgument, "join: the executor's index is not below their number",
                options.index);
  std::unique_ptr<JoinExecutor> executor(new JoinExecutor(fabric, queue, scheduler, options));
  YONDER_TRY(receiver, ShuffleReceiver::create(fabric, queue, scheduler,
                                               {.address = options.address,
                                                .senders = options.executors,
                                                .index = options.index,
                                                .ring_bytes = options.ring_bytes,
                                                .numa_node = options.numa_node}));
  executor->receiver_ = std::move(receiver);
  return executor;
}

std::string JoinExecutor::address() const { return receiver_->address(); }

Result<void> JoinExecutor::connect(std::span<const std::string> addresses) {
  if (addresses.size() != options_.executors)
    return fail(ErrorCode::kInvalidArgument, "join: not one address for each executor",
                static_cast<std::int64_t>(addresses.size()));
  YONDER_TRY(sender, ShuffleSender::connect(fabric_, queue_, scheduler_,
                                            {.receivers = {addresses.begin(), addresses.end()},
                                             .senders = options_.executors,
                                             .index = options_.index,
                                             .strategy = options_.strategy,
                                             .batch_entries = options_.batch_entries,
                                             .entry_memory = options_.row_memory,
                                             .timeout = options_.timeout,
                                             .numa_node = options_.numa_node}));
  sender_ = std::move(sender);
  return {};
}

fabric::Task<Result<JoinStats>> JoinExecutor::async_run(const JoinRelation& build, const JoinRelation& probe,
                                                        const JoinSink& sink, Deadline deadline) {
  if (sender_ == nullptr || run_ != nullptr)
    co_return fail(ErrorCode::kInvalidArgument, "join: run once, after connect()");
  run_ = std::make_unique<internal::JoinRun>(internal::JoinParts{.queue = queue_,
                                                                 .scheduler = scheduler_,
                                                                 .sender = *sender_,
                                                                 .receiver = *receiver_,
                                                                 .options = options_,
                                                                 .build = build,
                                                                 .probe = probe,
                                                                 .sink = sink,
                                                                 .deadline = deadline});
  co_return co_await run_->run();
}

Result<JoinStats> JoinExecutor::run(const JoinRelation& build, const JoinRelation& probe,
                                    const JoinSink& sink, Deadline deadline) {
  return scheduler_.block_on(async_run(build, probe, sink, deadline));
}

}  // namespace yonder::structures
