#pragma once
// OwnerDesks: where displaced objects are, known by the thread that owns their block.
//
// CoRM's first strategy of pointer correction (3.2.1): the thread that serves a request
// asks the owner of the block by a message; the owner looks into a table of its own and
// answers. Here a block belongs to a desk by its number, for ever, so that compaction
// changes what the owner knows and never who it is; and threads sit at desks by theirs.
// A desk has
//
//   mail   questions, and news of objects that were displaced or are gone: a bounded
//          queue from all threads
//   slots  the table: only whoever has the turn touches it
//   turn   who reads the mail: the owner whenever it serves a request (serve()), or
//          anybody if the owner is idle, asleep or gone
//
// A question is a letter with a number, and its answer goes into the asker's note, one
// word of this class's memory. Nothing is allocated, and nobody waits for a thread that
// does not come:
//
//   the owner is …                       the asker …
//   serving requests                     waits for it, `courtesy` looks
//   the asker, or nobody sits there      takes the turn at once
//   idle or asleep (it was waited for    takes the turn, and so do all others until the
//   in vain)                             owner comes by again
//   reading the mail, without getting    does without after `patience` looks
//   on (it lost its processor)
//
// D1  News of one object arrive in order: who sends the later one has seen the header
//     that was stored after the earlier one was sent.
// D2  An answer knows all news that were sent before the question: both went through
//     one queue, in this order.
// D3  An answer that comes too late is nobody's: it is exchanged for the number of its
//     question, and the note has another one by then. (If the number were the same,
//     after 2^32 questions, it would be a wrong hint: see D4.)
// D4  What is answered is a hint. The table may know less than the truth, while a block
//     is being moved and when nobody answers; the headers decide (locate.h).
//
// Concurrency: any thread; a thread's number by one thread at a time.
// Lifetime: the core's.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "yonder/node/heap.h"
#include "yonder/node/internal/thread_record.h"
#include "yonder/node/object_ptr.h"
#include "yonder/sync/atomics.h"
#include "yonder/sync/mpsc_queue.h"
#include "yonder/sync/spin_lock.h"

namespace yonder::node::internal {

class OwnerDesks {
 public:
  struct Options {
    std::uint32_t desks = 1;    // At least one.
    std::uint32_t threads = 1;  // Numbered from 0; thread i sits at desk i % desks.
    // Looks at the answer before the asker thinks of answering itself: some microseconds,
    // in which an owner that serves requests comes by several times.
    std::uint32_t courtesy = 128;
    // … and before it gives up: by then it could have looked at every header.
    std::uint32_t patience = 1024;
  };
  // Letters that a desk's mail has room for.
  static constexpr std::size_t kMailbox = 256;

  explicit OwnerDesks(const Options& options);

  // A thread begins and ceases to sit at its desk.
  void arrive(std::uint32_t thread);
  void leave(std::uint32_t thread);

  // News: the object is in this slot of its block's frame; it is there no more. Who
  // finds the mail full reads it first.
  void put(BlockId home, ObjectId id, std::uint32_t slot);
  void erase(BlockId home, ObjectId id);

  // Asks the owner of the block on behalf of thread `asker`, who serves its own desk
  // meanwhile. None: nobody knows, or nobody answered in time. D4
  std::optional<std::uint32_t> find(std::uint32_t asker, BlockId home, ObjectId id);

  // The thread answers what its desk was asked. A load if that is nothing.
  void serve(std::uint32_t thread) {
    Desk& desk = *desks_[thread % desks_.size()];
    // relaxed: a question that is missed now is seen next time.
    if (desk.signs.load(std::memory_order_relaxed) != 0) [[unlikely]]
      attend(desk);
  }

  OwnerAnswers answers() const;
  // All that the tables know after the mail was read, a desk at a time; `each` is called
  // by who has the turn there. Exact if nobody tells meanwhile.
  void visit(const std::function<void(BlockId home, ObjectId id, std::uint32_t slot)>& each);

 private:
  // Of a desk.
  static constexpr std::uint32_t kAsked = 1;      // There is a question in the mail.
  static constexpr std::uint32_t kNeglected = 2;  // The owner was waited for in vain.
  // In a note, where else the slot is.
  static constexpr std::uint32_t kOpen = UINT32_MAX;
  static constexpr std::uint32_t kUnknown = UINT32_MAX - 1;

  enum class Kind : std::uint8_t { kPut, kErase, kAsk };
  struct Letter {
    std::uint64_t identity = 0;
    std::uint32_t value = 0;  // The slot; the number of the question.
    std::uint32_t asker = 0;
    Kind kind = Kind::kErase;
  };
  struct alignas(sync::kNoSharingBytes) Desk {
    std::atomic<std::uint32_t> signs{0};
    std::atomic<std::uint32_t> sitting{0};   // Threads.
    sync::SpinLock turn;                     // Tried, never waited for (but by visit()).
    sync::MpscQueue<Letter> mail{kMailbox};  // Read by who has the turn.
    std::unordered_map<std::uint64_t, std::uint32_t> slots YONDER_GUARDED_BY(turn);
  };
  // Where a thread gets its answer:  | number of the question : 32 | answer : 32 |
  struct alignas(sync::kNoSharingBytes) Note {
    std::atomic<std::uint64_t> word{0};
    // The asker's.
    std::uint32_t number = 0;
    OwnerCounter by_others;
    OwnerCounter by_asker;
    OwnerCounter unanswered;
  };

  static std::uint64_t identity(BlockId home, ObjectId id) {
    return std::uint64_t{home.value()} << kObjectIdBits | id.value();
  }
  Desk& desk_of(BlockId home) { return *desks_[home.value() % desks_.size()]; }
  bool is_worth_waiting_for(std::uint32_t asker, const Desk& desk) const;
  void tell(Desk& desk, const Letter& letter);
  void attend(Desk& desk);
  // At most as many letters as there is room for. False: somebody else has the turn.
  bool try_read_mail(Desk& desk);
  void read_mail(Desk& desk) YONDER_REQUIRES(desk.turn);
  void act_on(Desk& desk, const Letter& letter) YONDER_REQUIRES(desk.turn);

  std::vector<std::unique_ptr<Desk>> desks_;
  const Options options_;
  const std::unique_ptr<Note[]> notes_;  // One for each thread.
};

}  // namespace yonder::node::internal
