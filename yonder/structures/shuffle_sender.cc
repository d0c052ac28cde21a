#include "yonder/structures/shuffle_sender.h"

#include <algorithm>
#include <utility>

#include "yonder/base/check.h"
#include "yonder/structures/internal/pause.h"
#include "yonder/structures/internal/registered_memory.h"
#include "yonder/structures/internal/shuffle_outbox.h"

namespace yonder::structures {
namespace {

using fabric::Task;
using internal::BatchKind;
using internal::InboxGreeting;
using internal::Outbox;
using internal::Pause;
using internal::RegisteredMemory;

Result<void> check_options(const ShuffleSenderOptions& options) {
  if (options.receivers.empty()) return fail(ErrorCode::kInvalidArgument, "shuffle: no receivers");
  if (options.senders == 0) return fail(ErrorCode::kInvalidArgument, "shuffle: no senders");
  if (options.index >= options.senders)
    return fail(ErrorCode::kInvalidArgument, "shuffle: the sender's index is not below their number",
                options.index);
  if (options.batch_entries == 0 || options.in_flight == 0)
    return fail(ErrorCode::kInvalidArgument, "shuffle: batches of no entries, or none in flight");
  if (options.batch_entries > internal::kMaxBatchEntries)
    return fail(ErrorCode::kInvalidArgument, "shuffle: batches of more entries than 65,536",
                options.batch_entries);
  return {};
}

Result<void> check_inbox(const InboxGreeting& inbox, std::uint32_t receiver,
                         const ShuffleSenderOptions& options) {
  if (inbox.receiver != receiver)
    return fail(ErrorCode::kInvalidArgument, "shuffle: the receiver at the address has another number",
                receiver);
  if (inbox.shape.senders != options.senders)
    return fail(ErrorCode::kInvalidArgument, "shuffle: the receiver expects another number of senders",
                receiver);
  return {};
}

// A connection whose ring is ours.
struct Line {
  std::unique_ptr<fabric::Endpoint> endpoint;
  InboxGreeting inbox;
};

Result<Line> dial(fabric::Fabric& fabric, fabric::CompletionQueue& queue, const ShuffleSenderOptions& options,
                  std::uint32_t receiver) {
  const fabric::ConnectOptions connect{.address = options.receivers[receiver],
                                       .endpoint = {.depth = Outbox::depth_for(options.in_flight),
                                                    .receive_depth = 1,
                                                    .default_timeout = options.timeout},
                                       .identity = options.identity,
                                       .connect_timeout = options.timeout,
                                       // S2: a request of the old connection could land after one of the new.
                                       .reconnect = false};
  YONDER_TRY(endpoint, fabric.connect(connect, queue));
  YONDER_TRY(inbox, InboxGreeting::decode(endpoint->greeting()));
  YONDER_TRY_VOID(check_inbox(inbox, receiver, options));
  if (options.strategy == ShuffleStrategy::kGather && endpoint->limits().max_pieces < 4)
    return fail(ErrorCode::kUnsupported, "shuffle: the endpoint takes no lists of pieces", receiver);
  YONDER_TRY(claim, endpoint->compare_swap(inbox.token.at(inbox.shape.owner(options.index)), 0, 1).wait());
  if (claim.value != 0)
    return fail(ErrorCode::kAlreadyExists, "shuffle: another sender has this index", receiver);
  return Line{std::move(endpoint), inbox};
}

std::uint64_t batch_bytes_for(const ShuffleSenderOptions& options, std::uint64_t ring_bytes) {
  if (options.strategy == ShuffleStrategy::kBasic) return 0;  // As much as the one entry needs.
  const std::uint64_t wanted = options.batch_bytes == 0 ? ring_bytes / 8 : options.batch_bytes;
  return std::min(internal::round_to(wanted, internal::kBatchAlignment), ring_bytes / 2);
}

}  // namespace

ShuffleSender::ShuffleSender(fabric::CompletionQueue& queue, fabric::Scheduler& scheduler,
                             const ShuffleSenderOptions& options)
    : queue_(queue), scheduler_(scheduler), options_(options) {}

ShuffleSender::~ShuffleSender() {
  hang_up();
  // Closing ended what was under way; the Operations it calls are in the outboxes.
  for (const auto& outbox : outboxes_) {
    while (!outbox->is_quiet()) queue_.poll({});
  }
}

Result<std::unique_ptr<ShuffleSender>> ShuffleSender::connect(fabric::Fabric& fabric,
                                                              fabric::CompletionQueue& queue,
                                                              fabric::Scheduler& scheduler,
                                                              const ShuffleSenderOptions& options) {
  YONDER_TRY_VOID(check_options(options));
  std::unique_ptr<ShuffleSender> sender(new ShuffleSender(queue, scheduler, options));
  YONDER_TRY_VOID(sender->connect_all(fabric));
  return sender;
}

Result<void> ShuffleSender::connect_all(fabric::Fabric& fabric) {
  std::vector<Line> lines;
  std::uint64_t memory_bytes = 0;
  for (std::uint32_t i = 0; i < options_.receivers.size(); ++i) {
    YONDER_TRY(line, dial(fabric, queue_, options_, i));
    memory_bytes += Outbox::memory_for(line.inbox.shape.ring_bytes, options_.in_flight);
    lines.push_back(std::move(line));
  }
  YONDER_TRY(memory, RegisteredMemory::create(fabric, {.name = "yonder-shuffle-out",
                                                       .bytes = memory_bytes,
                                                       .numa_node = options_.numa_node}));
  memory_ = std::make_unique<RegisteredMemory>(std::move(memory));
  std::span<std::byte> free = memory_->bytes();
  for (std::uint32_t i = 0; i < lines.size(); ++i) {
    const std::uint64_t ring_bytes = lines[i].inbox.shape.ring_bytes;
    const bool basic = options_.strategy == ShuffleStrategy::kBasic;
    const internal::OutboxOptions outbox{.inbox = lines[i].inbox,
                                         .receiver = i,
                                         .sender = options_.index,
                                         .in_flight = options_.in_flight,
                                         .batch_bytes = batch_bytes_for(options_, ring_bytes),
                                         .timeout = options_.timeout,
                                         .builder = {.gather = options_.strategy == ShuffleStrategy::kGather,
                                                     .max_entries = basic ? 1 : options_.batch_entries,
                                                     .max_pieces = lines[i].endpoint->limits().max_pieces,
                                                     .mirror_key = memory_->local_key(),
                                                     .entry_key = options_.entry_memory}};
    const std::uint64_t bytes = Outbox::memory_for(ring_bytes, options_.in_flight);
    outboxes_.push_back(std::make_unique<Outbox>(std::move(lines[i].endpoint), free.first(bytes), outbox));
    outboxes_.back()->post_hello();
    free = free.subspan(bytes);
  }
  return check();
}

void ShuffleSender::hang_up() {
  for (const auto& outbox : outboxes_) outbox->close();
}

void ShuffleSender::abort(const Error& reason) {
  if (error_ || finished_) return;
  error_ = reason;
  hang_up();
}

Result<void> ShuffleSender::check() {
  if (error_) return std::unexpected(*error_);
  if (finished_) return fail(ErrorCode::kClosed, "shuffle: the stream has ended");
  for (const auto& outbox : outboxes_) {
    outbox->post_rest();
    if (!outbox->error()) continue;
    abort(*outbox->error());
    return std::unexpected(*error_);
  }
  return {};
}

Result<std::uint32_t> ShuffleSender::choose(const ShuffleEntry& entry) const {
  if (!options_.partitioner) return hash_partition(entry.key, receivers());
  std::uint32_t receiver = receivers();
  try {
    receiver = options_.partitioner(entry, receivers());
  } catch (...) {  // The user's code may throw; ours does not.
    return fail(ErrorCode::kInvalidArgument, "shuffle: the partitioner threw");
  }
  if (receiver >= receivers())
    return fail(ErrorCode::kInvalidArgument, "shuffle: the partitioner named no receiver", receiver);
  return receiver;
}

Result<void> ShuffleSender::try_add(const ShuffleEntry& entry) {
  YONDER_TRY(receiver, choose(entry));
  return try_add_to(receiver, entry);
}

Result<void> ShuffleSender::try_add_to(std::uint32_t receiver, const ShuffleEntry& entry) {
  if (receiver >= outboxes_.size())
    return fail(ErrorCode::kInvalidArgument, "shuffle: no such receiver", receiver);
  if (error_ || finished_) [[unlikely]]
    return check();
  Outbox& outbox = *outboxes_[receiver];
  if (outbox.error()) [[unlikely]]
    return check();
  const std::uint64_t bytes = std::uint64_t{entry.key.size()} + entry.value.size();
  if (bytes > outbox.entry_limit() - sizeof(internal::BatchHeader)) [[unlikely]]
    return fail(ErrorCode::kLengthInvalid, "shuffle: the entry is larger than half a ring",
                static_cast<std::int64_t>(outbox.entry_limit() - sizeof(internal::BatchHeader)));
  bool taken = outbox.try_add(entry);
  if (!taken) {
    // Often all that is missing is a look at completions that have come.
    queue_.poll({});
    outbox.post_rest();
    taken = outbox.try_add(entry);
  }
  if (!taken) {
    waiting_ = entry;
    full_ = receiver;
    ++stats_.waits;
    return fail(ErrorCode::kQueueFull, "shuffle: the ring is full", receiver);
  }
  ++stats_.entries;
  return {};
}

Task<Result<void>> ShuffleSender::async_room(Deadline deadline) {
  Pause pause(options_.max_pause);
  while (waiting_) {
    if (Result<void> sound = check(); !sound) co_return sound;
    if (outboxes_[full_]->is_roomy_for(*waiting_)) {
      waiting_.reset();
      break;
    }
    if (deadline.passed(queue_.clock().now()))
      co_return fail(ErrorCode::kDeadlineExceeded, "shuffle: wait for room", full_);
    outboxes_[full_]->ask_for_room();
    co_await scheduler_.sleep_for(pause.next());
  }
  co_return Result<void>{};
}

Task<Result<void>> ShuffleSender::async_add(ShuffleEntry entry, Deadline deadline) {
  Result<std::uint32_t> receiver = choose(entry);
  if (!receiver) co_return std::unexpected(receiver.error());
  for (;;) {
    Result<void> added = try_add_to(*receiver, entry);
    if (added || !(added.error() == ErrorCode::kQueueFull)) co_return added;
    Result<void> room = co_await async_room(deadline);
    if (!room) co_return room;
  }
}

Task<Result<void>> ShuffleSender::async_flush(Deadline deadline) {
  for (const auto& outbox : outboxes_) outbox->post_batch();
  Pause pause(options_.max_pause);
  for (;;) {
    if (Result<void> sound = check(); !sound) co_return sound;
    const bool written =
        std::ranges::all_of(outboxes_, [](const auto& outbox) { return outbox->is_written(); });
    if (written) co_return Result<void>{};
    if (deadline.passed(queue_.clock().now())) co_return fail(ErrorCode::kDeadlineExceeded, "shuffle: flush");
    co_await scheduler_.sleep_for(pause.next());
  }
}

// Goes on where a call that ran out of time stopped: ended_.
Task<Result<void>> ShuffleSender::async_end(BatchKind kind, Deadline deadline) {
  Pause pause(options_.max_pause);
  for (;;) {
    if (Result<void> sound = check(); !sound) co_return sound;
    while (ended_ < outboxes_.size() && outboxes_[ended_]->try_end(kind)) ++ended_;
    if (ended_ == outboxes_.size()) break;
    if (deadline.passed(queue_.clock().now()))
      co_return fail(ErrorCode::kDeadlineExceeded, "shuffle: wait for room", ended_);
    co_await scheduler_.sleep_for(pause.next());
  }
  co_return Result<void>{};
}

Task<Result<void>> ShuffleSender::async_end_round(Deadline deadline) {
  Result<void> ended = co_await async_end(BatchKind::kEndOfRound, deadline);
  if (ended) ended_ = 0;
  co_return ended;
}

Task<Result<void>> ShuffleSender::async_all_consumed(Deadline deadline) {
  Pause pause(options_.max_pause);
  for (;;) {
    if (Result<void> sound = check(); !sound) co_return sound;
    bool consumed = true;
    for (const auto& outbox : outboxes_) {
      if (outbox->is_consumed() && outbox->is_written()) continue;
      outbox->ask_for_room();
      consumed = false;
    }
    if (consumed) co_return Result<void>{};
    if (deadline.passed(queue_.clock().now()))
      co_return fail(ErrorCode::kDeadlineExceeded, "shuffle: wait until everything is taken");
    co_await scheduler_.sleep_for(pause.next());
  }
}

Task<Result<void>> ShuffleSender::async_finish(Deadline deadline) {
  // No receiver is told of the end before all receivers have all entries: a sender that
  // cannot reach one of them is missed by the others.
  Result<void> flushed = co_await async_flush(deadline);
  if (!flushed) co_return flushed;
  Result<void> ended = co_await async_end(BatchKind::kEndOfStream, deadline);
  if (!ended) co_return ended;
  Result<void> consumed = co_await async_all_consumed(deadline);
  if (!consumed) co_return consumed;
  finished_ = true;
  hang_up();
  co_return consumed;
}

Result<void> ShuffleSender::add(const ShuffleEntry& entry, Deadline deadline) {
  Result<void> added = try_add(entry);
  if (added || !(added.error() == ErrorCode::kQueueFull)) return added;
  return scheduler_.block_on(async_add(entry, deadline));
}
Result<void> ShuffleSender::flush(Deadline deadline) { return scheduler_.block_on(async_flush(deadline)); }
Result<void> ShuffleSender::end_round(Deadline deadline) {
  return scheduler_.block_on(async_end_round(deadline));
}
Result<void> ShuffleSender::finish(Deadline deadline) { return scheduler_.block_on(async_finish(deadline)); }

}  // namespace yonder::structures
