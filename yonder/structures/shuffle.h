#pragma once
// Shuffle: n executors send entries (key, value) to m executors, each entry to the
// one that a partitioner names. Pushed, one-sided, bounded, delivered exactly once.
//
//   // at each of m receivers
//   auto receiver = ShuffleReceiver::create(fabric, queue, scheduler, {.address = "shm:in-0", .senders = n});
//   while (auto batch = receiver->next(deadline)) { if (batch->is_end()) break; for (ShuffleEntry e : *batch)
//   … }
//   // at each of n senders
//   auto sender = ShuffleSender::connect(fabric, queue, scheduler, {.receivers = addresses, .senders = n});
//   for (…) sender->add({.key = key, .value = value}, deadline);
//   sender->finish(deadline);
//
// How it works. A receiver lends registered memory with one ring per sender. A
// sender gathers entries for one receiver into a batch, writes the batch into its
// ring, and after it, in the same post, the ring's tail word. The receiver looks at
// its tail words and copies batches out; the room comes back by a word of its own
// that senders read when theirs runs short. Nobody but one sender writes a tail, and
// nobody but the receiver writes that word, so there is no lock and no atomic.
//
// A write of the tail and not a fetch-and-add (as in paper 002): with one writer per
// word the sum is known beforehand, a write costs half of what an atomic costs at a
// NIC (4.7 against 2.5 million a second), and it can be inline and unanswered.
//
// Why a batch is whole when its tail is seen: requests of one endpoint take effect in
// post order (E1 of fabric/endpoint.h), the tail is an aligned word (E5).
//
// Exactly once:
//   S1  A ring's positions only grow, a batch carries its number and the connection's
//       secret, and a batch that is not the next one is an error (kCorrupt). So
//       nothing is delivered twice or skipped, also when a write failed alone and the
//       tail after it did not.
//   S2  No request is ever repeated: the first that fails ends the shuffle for its
//       sender, which hangs up everywhere. (Repeating is not safe: a write given up
//       may land later, on a place that was used again.)
//   S3  A receiver that misses a sender before its end of stream reports
//       kConnectionLost, after what had arrived. The end of a stream says that this
//       receiver has its whole share, and that the others' is in their memory.
//   S4  finish() of a sender returns when the receivers have taken everything.
//
// Rounds: end_round() ends a round at all receivers; a receiver that took the rounds
// of all senders gets the end, and goes on with the next. So several exchanges with a
// barrier in between share the connections and the memory.
//
// Memory bound: a receiver takes senders × ring_bytes, a sender receivers ×
// ring_bytes; nothing spills. A sender whose ring is full waits.
//
// Executors that send and receive do both as two tasks of one Scheduler (or with two
// threads): who sends everything before he takes anything can wait for himself.
//
// Concurrency and lifetime: of this header, values.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace yonder::structures {

struct ShuffleEntry {
  std::span<const std::byte> key;
  std::span<const std::byte> value;
};

// How entries get from the sender's memory into a request.
enum class ShuffleStrategy : std::uint8_t {
  kBasic,   // one batch, that is one write and one tail, per entry
  kPack,    // entries are copied into one buffer (SP of paper 002)
  kGather,  // requests name the entries where they lie (SGL): they stay there until flush()
};

// Which of `receivers` gets the entry. Must return less than `receivers`.
using Partitioner = std::function<std::uint32_t(const ShuffleEntry& entry, std::uint32_t receivers)>;

// The 64-bit hash of a key that hash_partition() uses; the same on every host.
std::uint64_t shuffle_hash(std::span<const std::byte> key);
// The partitioner of those who name none: even over the hash of the key. Uses the high
// bits, so that the low ones are good for a table at the receiver.
std::uint32_t hash_partition(std::span<const std::byte> key, std::uint32_t receivers);

// A batch of one sender's entries, in the order he added them.
//
// Lifetime: a view into the receiver's memory, until its next call.
class ShuffleBatch {
 public:
  enum class Kind : std::uint8_t {
    kNothing,  // try_next() only: nothing has come
    kEntries,
    kEndOfRound,   // every sender ended the round; the next one follows
    kEndOfStream,  // every sender ended its stream
  };

  class Iterator {
   public:
    ShuffleEntry operator*() const;
    Iterator& operator++();
    friend bool operator==(const Iterator& a, const Iterator& b) { return a.index_ == b.index_; }

   private:
    friend class ShuffleBatch;
    Iterator(const ShuffleBatch& batch, std::uint32_t index) : batch_(&batch), index_(index) {}

    const ShuffleBatch* batch_;
    std::uint32_t index_;
    std::size_t offset_ = 0;
  };

  ShuffleBatch() = default;
  explicit ShuffleBatch(Kind kind) : kind_(kind) {}

  Kind kind() const { return kind_; }
  bool is_end() const { return kind_ == Kind::kEndOfRound || kind_ == Kind::kEndOfStream; }
  std::uint32_t sender() const { return sender_; }
  std::uint32_t size() const { return count_; }
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, count_}; }

 private:
  friend class ShuffleBatchParser;
  struct Lengths {
    std::uint32_t key;
    std::uint32_t value;
  };
  Lengths lengths(std::uint32_t index) const;

  Kind kind_ = Kind::kNothing;
  std::uint32_t sender_ = 0;
  std::uint32_t count_ = 0;
  Lengths uniform_{0, 0};
  const std::byte* bodies_ = nullptr;
  const std::byte* directory_ = nullptr;  // Null: all entries have the lengths `uniform_`.
};

}  // namespace yonder::structures
