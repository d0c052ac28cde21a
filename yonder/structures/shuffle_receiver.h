#pragma once
// ShuffleReceiver: one of the m executors that receive. See shuffle.h for the whole.
//
//   auto receiver = ShuffleReceiver::create(fabric, queue, scheduler,
//                                           {.address = "tcp://0.0.0.0:7501", .senders = 4, .index = 0});
//   for (;;) {
//     YONDER_TRY(batch, (*receiver)->next(deadline));
//     if (batch.is_end()) break;
//     for (const ShuffleEntry entry : batch) …
//   }
//   YONDER_TRY_VOID((*receiver)->finish(deadline));
//
// Batches of one sender come in the order he sent them; senders are looked at in turn.
// A batch is copied out of the ring before its lengths are believed, so that a sender
// cannot change what was checked, and its room goes back at once.
//
// Errors. The first one is the end of the shuffle at this receiver: it hangs up, the
// senders learn that, and every later call returns the same. kConnectionLost: a sender
// is gone before the end of its stream; kCorrupt: its bytes are no batch, or not the
// next one. `detail` is the sender's number. kDeadlineExceeded of the call's own
// deadline ends nothing: senders may be late, or never come.
//
// Concurrency: the thread of the queue. One task uses a receiver.
// Lifetime: fabric, queue and scheduler outlive it. Whoever destroys it before
// finish() returned lets senders wait in vain: they get an error. Not to be destroyed
// inside a task (see shuffle_sender.h).

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
class InboxSeat;
class RegisteredMemory;
struct BatchHeader;
struct InboxShape;
}  // namespace internal

struct ShuffleReceiverOptions {
  std::string address;                   // to listen at
  std::uint32_t senders = 1;             // n
  std::uint32_t index = 0;               // which of the receivers this is
  std::uint64_t ring_bytes = 64 * 1024;  // per sender; a power of two
  // The longest pause between two looks at empty rings.
  Duration max_pause = std::chrono::microseconds(200);
  std::optional<int> numa_node;  // where the memory of its rings comes from
  fabric::Identity identity;
};

struct ShuffleReceiverStats {
  std::uint64_t entries = 0;
  std::uint64_t batches = 0;
};

class ShuffleReceiver {
 public:
  // Registers senders × ring_bytes and listens. The queue needs room for 6 completions
  // per sender. Errors: kInvalidArgument (no senders, ring_bytes), those of
  // Fabric::register_memory and listen.
  static Result<std::unique_ptr<ShuffleReceiver>> create(fabric::Fabric& fabric,
                                                         fabric::CompletionQueue& queue,
                                                         fabric::Scheduler& scheduler,
                                                         const ShuffleReceiverOptions& options);
  ~ShuffleReceiver();
  ShuffleReceiver(const ShuffleReceiver&) = delete;
  ShuffleReceiver& operator=(const ShuffleReceiver&) = delete;

  // The address senders connect to, with the port that the system chose.
  std::string address() const { return listener_->address(); }

  // The next batch: entries, or the end of the round or stream of all senders. After
  // kEndOfStream only finish() is left; next() then returns kEndOfStream again.
  Result<ShuffleBatch> next(Deadline deadline);
  fabric::Task<Result<ShuffleBatch>> async_next(Deadline deadline);
  // The same without waiting: kNothing if there is none now.
  Result<ShuffleBatch> try_next();

  // Waits until all senders have hung up, which they do when they know that everything
  // was taken. Requires that next() gave kEndOfStream: else kInvalidArgument.
  Result<void> finish(Deadline deadline);
  fabric::Task<Result<void>> async_finish(Deadline deadline);

  const ShuffleReceiverStats& stats() const { return stats_; }

 private:
  enum class StreamState : std::uint8_t { kOpen, kRoundEnded, kEnded };
  // What the receiver knows of one sender.
  struct Stream {
    std::uint64_t position = 0;  // consumed
    std::uint64_t number = 0;    // of the next batch
    StreamState state = StreamState::kOpen;
    internal::InboxSeat* seat = nullptr;  // its connection, once it said who it is
    Instant alone_since;                  // taken by somebody whose connection is not here
    bool deserted = false;                // … for so long that it will not come
  };

  ShuffleReceiver(fabric::CompletionQueue& queue, fabric::Scheduler& scheduler,
                  const ShuffleReceiverOptions& options);
  Result<void> open(fabric::Fabric& fabric);
  internal::InboxShape shape() const;

  // Takes connections that came and greetings that were said.
  void welcome();
  void seat_sender(internal::InboxSeat& seat);
  void find_deserted();
  // The next batch of one stream, kNothing if there is none, kEndOf… if it ended.
  Result<ShuffleBatch> take(std::uint32_t sender);
  Result<internal::BatchHeader> look(std::uint32_t sender, std::uint64_t available);
  void give_back(std::uint32_t sender, std::uint64_t bytes);
  std::optional<ShuffleBatch::Kind> end_of_all();
  std::unexpected<Error> fail_with(const Error& error);
  void hang_up();

  fabric::CompletionQueue& queue_;
  fabric::Scheduler& scheduler_;
  const ShuffleReceiverOptions options_;
  std::unique_ptr<internal::RegisteredMemory> memory_;
  std::unique_ptr<fabric::Listener> listener_;
  std::vector<std::unique_ptr<internal::InboxSeat>> seats_;
  std::vector<Stream> streams_;
  std::vector<std::byte> batch_;  // where the current one is copied to
  std::uint64_t secret_ = 0;
  std::uint32_t seated_ = 0;  // streams whose connection is known
  std::uint32_t taken_in_a_row_ = 0;
  std::uint32_t turn_ = 0;  // whose ring is looked at next
  std::optional<Error> error_;
  ShuffleReceiverStats stats_;
};

}  // namespace yonder::structures
