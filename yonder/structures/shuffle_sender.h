#pragma once
// ShuffleSender: one of the n executors that send. See shuffle.h for the whole.
//
//   auto sender = ShuffleSender::connect(fabric, queue, scheduler,
//                                        {.receivers = {"tcp://a:7501", "tcp://b:7501"}, .senders = 4, .index
//                                        = 2});
//   YONDER_TRY_VOID((*sender)->add({.key = key, .value = value}, deadline));
//   YONDER_TRY_VOID((*sender)->finish(deadline));
//
// In a coroutine the calls are async_add() and so on; where every nanosecond counts,
// try_add() first, and async_room() when it says kQueueFull.
//
// Errors. kInvalidArgument and kLengthInvalid are the caller's: the entry was not
// taken, the sender goes on. Every other error of a call is the end of the shuffle for
// this sender (S2): it hangs up, the receivers learn that (kConnectionLost), and every
// later call returns the same error; `detail` is the number of the receiver. Except
// kDeadlineExceeded of the call's own deadline: then nothing was taken (add) or the
// rest is still to be done (flush, end_round, finish), and the call may be repeated.
//
// Concurrency: the thread of the queue. Calls do not overlap: one task uses a sender.
// Lifetime: fabric, queue and scheduler outlive it. Destroying it before finish()
// returned hangs up: receivers see a lost sender. Not to be destroyed inside a task,
// which may have been resumed by a completion with others of this sender behind it.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/fabric/fabric.h"
#include "yonder/fabric/scheduler.h"
#include "yonder/fabric/task.h"
#include "yonder/structures/shuffle.h"

namespace yonder::structures {

namespace internal {
class Outbox;
class RegisteredMemory;
enum class BatchKind : std::uint32_t;
}  // namespace internal

struct ShuffleSenderOptions {
  std::vector<std::string> receivers;  // addresses, in the order of their numbers
  std::uint32_t senders = 1;           // n: as the receivers were told
  std::uint32_t index = 0;             // which of them this is; no two are the same
  Partitioner partitioner;             // empty: hash_partition()

  ShuffleStrategy strategy = ShuffleStrategy::kPack;
  std::uint32_t batch_entries = 16;  // at most, up to 65,536; kBasic: 1
  // Where a batch ends even if it has fewer entries; 0: an eighth of the ring. An
  // entry that is larger has a batch of its own.
  std::uint64_t batch_bytes = 0;
  std::uint32_t in_flight = 16;  // batches to one receiver that are not acknowledged
  // kGather: of the region in which the entries lie, so that a NIC takes them in place.
  fabric::LocalKey entry_memory = fabric::kUnregistered;

  Duration timeout = std::chrono::seconds(5);  // of each request and of connecting
  // The longest pause between two looks at a full ring.
  Duration max_pause = std::chrono::microseconds(200);
  std::optional<int> numa_node;  // where the memory of its rings comes from
  fabric::Identity identity;
};

struct ShuffleSenderStats {
  std::uint64_t entries = 0;
  std::uint64_t waits = 0;  // calls that found a ring full
};

class ShuffleSender {
 public:
  // Connects to all receivers and takes the ring `index` of each. Blocks. The queue
  // needs room for 3 × in_flight + 3 completions per receiver.
  // Errors: kInvalidArgument (no receivers, an index that is not below `senders`,
  // batch_entries or in_flight 0 or too many, receivers that were told another number of senders
  // or another number of their own), kAlreadyExists (somebody has this index),
  // kUnsupported (kGather on an endpoint that takes no lists), those of
  // Fabric::connect and register_memory, kProtocolMismatch.
  static Result<std::unique_ptr<ShuffleSender>> connect(fabric::Fabric& fabric,
                                                        fabric::CompletionQueue& queue,
                                                        fabric::Scheduler& scheduler,
                                                        const ShuffleSenderOptions& options);
  ~ShuffleSender();
  ShuffleSender(const ShuffleSender&) = delete;
  ShuffleSender& operator=(const ShuffleSender&) = delete;

  // Sends the entry to the receiver the partitioner names: soon, that is with its
  // batch. Its bytes are copied, or, with kGather, used until flush() returned.
  // Errors: kInvalidArgument (the partitioner named none or threw), kLengthInvalid
  // (larger than half a ring: detail is the limit), and see above.
  Result<void> add(const ShuffleEntry& entry, Deadline deadline);
  fabric::Task<Result<void>> async_add(ShuffleEntry entry, Deadline deadline);
  // Without waiting: kQueueFull if its ring is full at the moment. May poll the queue.
  Result<void> try_add(const ShuffleEntry& entry);
  // The same to a receiver of the caller's choice, past the partitioner.
  Result<void> try_add_to(std::uint32_t receiver, const ShuffleEntry& entry);
  // Waits until the receiver that try_add() last found full has room.
  fabric::Task<Result<void>> async_room(Deadline deadline);

  // Returns when all entries so far are in the receivers' memory.
  Result<void> flush(Deadline deadline);
  fabric::Task<Result<void>> async_flush(Deadline deadline);

  // Ends the round at all receivers; the next begins. Does not wait for them to take
  // it.
  Result<void> end_round(Deadline deadline);
  fabric::Task<Result<void>> async_end_round(Deadline deadline);

  // Ends the stream, waits until the receivers have taken everything, hangs up.
  Result<void> finish(Deadline deadline);
  fabric::Task<Result<void>> async_finish(Deadline deadline);

  // Hangs up without an end: receivers see a lost sender, and every later call returns
  // `reason`. Idempotent; nothing to do after finish().
  void abort(const Error& reason);

  std::uint32_t receivers() const { return static_cast<std::uint32_t>(outboxes_.size()); }
  const ShuffleSenderStats& stats() const { return stats_; }

 private:
  ShuffleSender(fabric::CompletionQueue& queue, fabric::Scheduler& scheduler,
                const ShuffleSenderOptions& options);
  Result<void> connect_all(fabric::Fabric& fabric);
  Result<std::uint32_t> choose(const ShuffleEntry& entry) const;
  // The first failure of any outbox; hangs up everywhere if there is one. Every wait
  // comes here again and again, so it also posts what an endpoint refused before.
  Result<void> check();
  fabric::Task<Result<void>> async_end(internal::BatchKind kind, Deadline deadline);
  fabric::Task<Result<void>> async_all_consumed(Deadline deadline);
  void hang_up();

  fabric::CompletionQueue& queue_;
  fabric::Scheduler& scheduler_;
  const ShuffleSenderOptions options_;
  std::unique_ptr<internal::RegisteredMemory> memory_;
  std::vector<std::unique_ptr<internal::Outbox>> outboxes_;
  std::optional<Error> error_;
  std::optional<ShuffleEntry> waiting_;  // what try_add() refused last …
  std::uint32_t full_ = 0;               // … and whose ring was full
  std::uint32_t ended_ = 0;              // receivers that were told of the end under way
  bool finished_ = false;
  ShuffleSenderStats stats_;
};

}  // namespace yonder::structures
