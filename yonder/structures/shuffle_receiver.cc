#include "yonder/structures/shuffle_receiver.h"

#include <algorithm>
#include <array>
#include <utility>

#include "yonder/base/secure_random.h"
#include "yonder/structures/internal/pause.h"
#include "yonder/structures/internal/registered_memory.h"
#include "yonder/structures/internal/shuffle_seat.h"
#include "yonder/structures/internal/shuffle_wire.h"
#include "yonder/sync/shared_copy.h"

namespace yonder::structures {
namespace {

using fabric::Task;
using internal::BatchHeader;
using internal::BatchKind;
using internal::InboxGreeting;
using internal::InboxSeat;
using internal::InboxShape;
using internal::Pause;
using internal::RegisteredMemory;
using Word = std::uint64_t __attribute__((may_alias));

// Passed since the beginning of time: takes what is there and never waits.
constexpr Deadline kAtOnce = Deadline::at(Instant::from_ns(1));
// Connections taken for each sender: one is its own, the other may be somebody's who
// was refused the ring.
constexpr std::uint32_t kSeatsPerSender = 2;
// Batches between two pauses of no length.
constexpr std::uint32_t kMostInARow = 256;
// How long a ring may have an owner before his connection is there: much longer than
// any listener takes to hand over what it has accepted.
constexpr Duration kGrace = std::chrono::milliseconds(100);

}  // namespace

ShuffleReceiver::ShuffleReceiver(fabric::CompletionQueue& queue, fabric::Scheduler& scheduler,
                                 const ShuffleReceiverOptions& options)
    : queue_(queue), scheduler_(scheduler), options_(options), streams_(options.senders) {}

ShuffleReceiver::~ShuffleReceiver() {
  hang_up();
  for (const auto& seat : seats_) {
    while (!seat->is_quiet()) queue_.poll({});
  }
}

InboxShape ShuffleReceiver::shape() const {
  return {.senders = options_.senders, .ring_bytes = options_.ring_bytes};
}

Result<std::unique_ptr<ShuffleReceiver>> ShuffleReceiver::create(fabric::Fabric& fabric,
                                                                 fabric::CompletionQueue& queue,
                                                                 fabric::Scheduler& scheduler,
                                                                 const ShuffleReceiverOptions& options) {
  YONDER_TRY_VOID(internal::check_shape({.senders = options.senders, .ring_bytes = options.ring_bytes}));
  std::unique_ptr<ShuffleReceiver> receiver(new ShuffleReceiver(queue, scheduler, options));
  YONDER_TRY_VOID(receiver->open(fabric));
  return receiver;
}

Result<void> ShuffleReceiver::open(fabric::Fabric& fabric) {
  YONDER_TRY(memory, RegisteredMemory::create(fabric, {.name = "yonder-shuffle-in",
                                                       .bytes = shape().total_bytes(),
                                                       .rights = fabric::Rights::kAll,
                                                       .numa_node = options_.numa_node}));
  memory_ = std::make_unique<RegisteredMemory>(std::move(memory));
  YONDER_TRY(secret, secure_random_u64());
  secret_ = secret;
  batch_.resize(shape().max_batch());
  std::array<std::byte, InboxGreeting::kEncodedBytes> greeting;
  InboxGreeting{.receiver = options_.index, .shape = shape(), .secret = secret_, .token = memory_->token()}
      .encode(greeting);
  // Connections to a receiver of a shuffle do nothing but wait for their end.
  YONDER_TRY(listener, fabric.listen({.address = options_.address,
                                      .endpoint = {.depth = 1, .receive_depth = 2},
                                      .identity = options_.identity,
                                      .greeting = {greeting.begin(), greeting.end()},
                                      .completion_queues = {&queue_},
                                      .max_connections = kSeatsPerSender * options_.senders}));
  listener_ = std::move(listener);
  return {};
}

void ShuffleReceiver::hang_up() {
  if (listener_ != nullptr) listener_->close();
  for (const auto& seat : seats_) seat->close();
  if (memory_ != nullptr) memory_->revoke();
}

std::unexpected<Error> ShuffleReceiver::fail_with(const Error& error) {
  error_ = error;
  hang_up();
  return std::unexpected(error);
}

void ShuffleReceiver::welcome() {
  if (seated_ == options_.senders) [[likely]]
    return;
  while (seats_.size() < kSeatsPerSender * options_.senders) {
    auto endpoint = listener_->accept(kAtOnce);
    if (!endpoint) break;
    seats_.push_back(std::make_unique<InboxSeat>(*std::move(endpoint)));
  }
  for (const auto& seat : seats_) {
    if (seat->sender()) seat_sender(*seat);
  }
  find_deserted();
}

// A sender takes its ring over a connection that waits in our listener, and says its
// number soon after. If that connection broke first, it may never be handed to us: then
// the ring has an owner, and no connection is left that could be his.
void ShuffleReceiver::find_deserted() {
  const auto is_undecided = [](const auto& seat) { return !seat->sender() && !seat->is_gone(); };
  if (std::ranges::any_of(seats_, is_undecided)) return;
  const Instant now = queue_.clock().now();
  for (std::uint32_t i = 0; i < streams_.size(); ++i) {
    Stream& stream = streams_[i];
    const auto* const owner = reinterpret_cast<const Word*>(memory_->bytes().data() + shape().owner(i));
    // relaxed: seen late is decided late.
    if (stream.seat != nullptr || __atomic_load_n(owner, __ATOMIC_RELAXED) == 0) continue;
    if (stream.alone_since == Instant()) stream.alone_since = now;
    stream.deserted = now - stream.alone_since > kGrace;
  }
}

void ShuffleReceiver::seat_sender(InboxSeat& seat) {
  const std::uint64_t sender = *seat.sender();
  if (sender >= streams_.size()) return seat.close();
  if (streams_[sender].seat == nullptr) {
    streams_[sender].seat = &seat;
    ++seated_;
  }
  // A second one with the same number has not won the ring: it is no sender.
  if (streams_[sender].seat != &seat) seat.close();
}

Result<BatchHeader> ShuffleReceiver::look(std::uint32_t sender, std::uint64_t available) {
  const Stream& stream = streams_[sender];
  const std::uint64_t place = stream.position & (options_.ring_bytes - 1);
  const std::byte* const ring = memory_->bytes().data() + shape().ring(sender);
  // What lies in one piece: a batch does not go around the end of the ring.
  const std::uint64_t straight = std::min(available, options_.ring_bytes - place);
  sync::shared_copy(batch_.data(), ring + place, sizeof(BatchHeader));
  YONDER_TRY(header, ShuffleBatchParser::check_header(batch_, secret_ + stream.number, straight));
  if (header.kind != BatchKind::kSkip) {
    if (header.bytes > batch_.size())
      return fail(ErrorCode::kCorrupt, "shuffle: a batch is larger than half a ring");
    sync::shared_copy(batch_.data() + sizeof header, ring + place + sizeof header,
                      header.bytes - sizeof header);
    queue_.charge_copy(1, header.bytes);
  }
  return header;
}

void ShuffleReceiver::give_back(std::uint32_t sender, std::uint64_t bytes) {
  Stream& stream = streams_[sender];
  stream.position += bytes;
  ++stream.number;
  auto* const consumed = reinterpret_cast<Word*>(memory_->bytes().data() + shape().consumed(sender));
  // release: the copy out of the ring is done before a sender learns of the room.
  __atomic_store_n(consumed, stream.position, __ATOMIC_RELEASE);
}

Result<ShuffleBatch> ShuffleReceiver::take(std::uint32_t sender) {
  Stream& stream = streams_[sender];
  const auto* const word = reinterpret_cast<const Word*>(memory_->bytes().data() + shape().tail(sender));
  for (;;) {
    if (stream.state != StreamState::kOpen) return ShuffleBatch();
    // Looked at before the tail: all that a sender wrote is there when its connection
    // has ended, so an empty ring after that stays empty.
    const bool gone = stream.seat != nullptr ? stream.seat->is_gone() : stream.deserted;
    // acquire: pairs with the order of the sender's writes (E1); the batches before
    // the tail are complete.
    const std::uint64_t available = __atomic_load_n(word, __ATOMIC_ACQUIRE) - stream.position;
    if (available == 0) {
      if (gone) return fail(ErrorCode::kConnectionLost, "shuffle: a sender is gone", sender);
      return ShuffleBatch();
    }
    if (available > options_.ring_bytes)
      return fail(ErrorCode::kCorrupt, "shuffle: a tail beyond the ring", sender);
    Result<BatchHeader> header = look(sender, available);
    if (!header) return fail(header.error().code(), header.error().message(), sender);
    Result<ShuffleBatch> batch{};
    if (header->kind == BatchKind::kEntries) {
      batch = ShuffleBatchParser::parse(batch_, *header, sender);
      if (!batch) return fail(batch.error().code(), batch.error().message(), sender);
    }
    if (header->kind == BatchKind::kEndOfRound) stream.state = StreamState::kRoundEnded;
    if (header->kind == BatchKind::kEndOfStream) stream.state = StreamState::kEnded;
    give_back(sender, header->bytes);
    if (header->kind == BatchKind::kEntries) return batch;
  }
}

// The end that all streams have reached, after which the next round is open. A sender
// that ended its stream takes part in no further round.
std::optional<ShuffleBatch::Kind> ShuffleReceiver::end_of_all() {
  bool all_ended = true;
  for (const Stream& stream : streams_) {
    if (stream.state == StreamState::kOpen) return std::nullopt;
    all_ended = all_ended && stream.state == StreamState::kEnded;
  }
  if (all_ended) return ShuffleBatch::Kind::kEndOfStream;
  for (Stream& stream : streams_) {
    if (stream.state == StreamState::kRoundEnded) stream.state = StreamState::kOpen;
  }
  return ShuffleBatch::Kind::kEndOfRound;
}

Result<ShuffleBatch> ShuffleReceiver::try_next() {
  if (error_) return std::unexpected(*error_);
  for (std::uint32_t looked = 0; looked < options_.senders; ++looked) {
    const std::uint32_t sender = turn_;
    turn_ = turn_ + 1 == options_.senders ? 0 : turn_ + 1;
    Result<ShuffleBatch> batch = take(sender);
    if (!batch) return fail_with(batch.error());
    if (batch->kind() == ShuffleBatch::Kind::kNothing) continue;
    ++stats_.batches;
    stats_.entries += batch->size();
    return batch;
  }
  if (const auto end = end_of_all()) return ShuffleBatch(*end);
  // Only when there is nothing to take: asking a listener costs a system call or two.
  welcome();
  return ShuffleBatch();
}

Task<Result<ShuffleBatch>> ShuffleReceiver::async_next(Deadline deadline) {
  Pause pause(options_.max_pause);
  // Senders that are fast enough could keep this task from ever pausing, and with it the
  // other tasks of the thread and the completions of its queue.
  if (++taken_in_a_row_ == kMostInARow) {
    taken_in_a_row_ = 0;
    co_await scheduler_.sleep_for(Duration(0));
  }
  for (;;) {
    Result<ShuffleBatch> batch = try_next();
    if (!batch || batch->kind() != ShuffleBatch::Kind::kNothing) co_return batch;
    if (deadline.passed(queue_.clock().now()))
      co_return fail(ErrorCode::kDeadlineExceeded, "shuffle: wait for the next batch");
    co_await scheduler_.sleep_for(pause.next());
  }
}

Task<Result<void>> ShuffleReceiver::async_finish(Deadline deadline) {
  const bool ended =
      std::ranges::all_of(streams_, [](const Stream& stream) { return stream.state == StreamState::kEnded; });
  if (!error_ && !ended)
    co_return fail(ErrorCode::kInvalidArgument, "shuffle: finish before the end of all streams");
  Pause pause(options_.max_pause);
  for (;;) {
    if (error_) co_return std::unexpected(*error_);
    welcome();
    const bool gone = std::ranges::all_of(
        streams_, [](const Stream& stream) { return stream.seat != nullptr && stream.seat->is_gone(); });
    if (gone) break;
    if (deadline.passed(queue_.clock().now()))
      co_return fail(ErrorCode::kDeadlineExceeded, "shuffle: wait until the senders hang up");
    co_await scheduler_.sleep_for(pause.next());
  }
  hang_up();
  co_return Result<void>{};
}

Result<ShuffleBatch> ShuffleReceiver::next(Deadline deadline) {
  return scheduler_.block_on(async_next(deadline));
}
Result<void> ShuffleReceiver::finish(Deadline deadline) {
  return scheduler_.block_on(async_finish(deadline));
}

}  // namespace yonder::structures
