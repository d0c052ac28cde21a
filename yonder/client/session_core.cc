// The connection, and what the client knows of the node.
#include <algorithm>
#include <bit>
#include <utility>

#include "yonder/client/internal/session_core.h"

namespace yonder::client::internal {

using node::protocol::Describe;

namespace {

// A description of a node fits, whatever the options say.
constexpr std::uint32_t kMinMessage =
    std::bit_ceil(static_cast<std::uint32_t>(node::protocol::NodeDescription::kMaxBytes));

}  // namespace

SessionCore::~SessionCore() { close(); }

Result<void> SessionCore::connect(fabric::Fabric& fabric) {
  if (options_.scheduler != nullptr && options_.queue == nullptr) {
    return fail(ErrorCode::kInvalidArgument, "connect a session: a scheduler without its queue");
  }
  if (options_.depth < kMinDepth) return fail(ErrorCode::kInvalidArgument, "session: depth", options_.depth);
  queue_ = options_.queue;
  if (queue_ == nullptr) {
    YONDER_TRY(queue, fabric.create_completion_queue({}));
    own_queue_ = std::move(queue);
    queue_ = own_queue_.get();
  }
  scheduler_ = options_.scheduler;
  if (scheduler_ == nullptr) {
    own_scheduler_ = std::make_unique<fabric::Scheduler>(*queue_);
    scheduler_ = own_scheduler_.get();
  }
  const rpc::ClientOptions rpc{.max_outstanding = options_.max_outstanding,
                               .one_sided_depth = options_.depth,
                               .max_response = std::bit_floor(std::max(options_.max_message, kMinMessage)),
                               .default_timeout = options_.timeout,
                               .connect_timeout = options_.connect_timeout,
                               .tenant = options_.identity.tenant,
                               .epoch = options_.identity.epoch,
                               .same_greeting = true,
                               .scheduler = scheduler_};
  YONDER_TRY(client, rpc::Client::connect(fabric, options_.address, *queue_, rpc));
  rpc_ = std::move(client);
  scratch_.register_some(fabric);
  return scheduler_->block_on(describe(or_default({})));
}

void SessionCore::close() {
  near_.clear();
  if (rpc_ != nullptr) rpc_->close();
}

// The first time, and when the node may be another process: its regions have other keys
// then. What calls under way hold of the old map stays right: the same objects have the
// same layout.
Task<Result<void>> SessionCore::describe(Deadline deadline) {
  const std::uint64_t losses = rpc_->stats().losses;
  auto description = co_await rpc_->call<Describe>({}, deadline);
  if (!description) co_return std::unexpected(description.error());
  auto map = NodeMap::create(*std::move(description));
  if (!map) co_return std::unexpected(map.error());
  map_.emplace(*std::move(map));
  // Data of an answer: what both sides have room for, besides what stands before it.
  const std::uint32_t room = std::bit_floor(std::max(options_.max_message, kMinMessage)) - kMaxHeadBytes;
  max_data_ = std::min(map_->max_data(), room);
  translations_.clear();
  view_keys_.clear();
  near_.clear();
  reads_until_windows_ = 0;
  described_after_ = losses;
  co_return co_await learn_superblocks(deadline);
}

Task<Result<void>> SessionCore::learn_superblocks(Deadline deadline) {
  for (;;) {
    const std::size_t known = map_->superblock_count();
    auto more = co_await rpc_->call<Describe>({.first_superblock = known}, deadline);
    if (!more) co_return std::unexpected(more.error());
    map_->add_superblocks(known, more->superblocks);
    if (more->superblocks.empty() || map_->superblock_count() >= more->superblock_count) {
      co_return Result<void>();
    }
  }
}

}  // namespace yonder::client::internal
