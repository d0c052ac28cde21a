#pragma once
// One direction of messages: a ring of 64-byte cells in shared memory.
//
// The sender fills the tail cells, then the head cell, and stores the head's
// sequence number last; the receiver spins on the sequence of the next cell. That
// line is the only one that moves for a short message. How far the receiver has
// come (needed only when the ring looks full) travels in the messages of the
// other direction, or in `consumed` when there are none for a while.
//
//   states of a cell, by its sequence s and the running number n of that place:
//   s == n + 1     written, for the receiver          (sender: must not touch)
//   s != n + 1     free, or being written             (receiver: must not read)
//   The sender knows by `acknowledged` that the receiver is past n - cells.
//
// I1  The receiver reads payload only after it has seen the head's sequence.
// I2  The sender writes a cell only if the receiver has said that it consumed
//     its previous content; so a payload does not change while it is copied out
//     (by an honest sender: a hostile one garbles its own message).
// I3  Every cell's sequence is written by the sender alone and is a running
//     number; payload never stands where a sequence is expected.
// I4  All numbers a peer gives (sequence, acknowledged, length, kind) are copied
//     once and then checked: a wrong one breaks the connection, nothing else.
//
// The express area. Walking through the ring, each message meets lines that have
// gone cold in the sender's cache. Where messages alternate with answers, which
// tell that the last one was consumed, the same few lines suffice and stay warm:
// so a message of up to four cells goes into the express area of its direction if
// that is free, and into the ring otherwise (measured: 420 instead of 600 ns per
// round trip where a bare line takes 220). It has its running numbers as always,
// and its place in the ring is skipped, so the order is the same. One line shared
// by both directions was slower (870 ns): who waits for the answer disturbs who
// writes it.
// I5  The sender writes the express area only if its last content was consumed.
//
// Running numbers are 32 bits and wrap; differences are taken modulo 2^32, and a
// ring has at most 2^18 cells.
//
// Concurrency: one sender thread, one receiver thread. Lifetime: borrows memory.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>

#include "yonder/fabric/shm/internal/layout.h"
#include "yonder/fabric/types.h"
#include "yonder/sync/shared_copy.h"

namespace yonder::fabric::shm {

struct MessageHead {
  MessageKind kind = MessageKind::kSend;
  std::uint32_t length = 0;
  std::uint32_t immediate = 0;
};

class MessageSender {
 public:
  MessageSender() = default;
  // `express` (kExpressCells) may be null: everything goes through the ring.
  MessageSender(std::byte* cells, std::uint32_t count, const std::atomic<std::uint32_t>* consumed,
                HeadCell* express = nullptr)
      : cells_(cells), count_(count), consumed_(consumed), express_(express) {}

  // Whether a message of `length` bytes can be sent now. Looks at `consumed` only
  // if what it knows does not suffice.
  bool has_room(std::uint32_t length) {
    const std::uint32_t need = cells_of(length);
    if (next_ - acknowledged_ + need <= count_) [[likely]]
      return true;
    refresh();
    return next_ - acknowledged_ + need <= count_;
  }

  // Requires has_room(head.length); `pieces` hold head.length bytes. `consumed`
  // is what our receiver of the other direction has consumed. Returns the number
  // that acknowledged() passes when the message has been consumed.
  std::uint32_t send(const MessageHead& head, std::span<const LocalPiece> pieces, std::uint32_t consumed);

  // What the peer told: false if it is no number it can have (malformed). A
  // message tells what was so when it was sent, and `consumed` may have told us
  // more since, or long ago: an older number is nothing new.
  bool acknowledge(std::uint32_t consumed) {
    if (static_cast<std::int32_t>(consumed - acknowledged_) <= 0) return true;
    if (consumed - acknowledged_ > next_ - acknowledged_) [[unlikely]]
      return false;
    acknowledged_ = consumed;
    return true;
  }
  // Takes the late notice of the peer into account; false if malformed.
  bool refresh() {
    // acquire: pairs with release in MessageReceiver::publish(); the cells before
    // it are no longer read (I2).
    const std::uint32_t consumed = consumed_->load(std::memory_order_acquire);
    // Older than what came with a message: nothing new. (The receiver publishes
    // at least every 2^20 cells, so "older" is never as far as half the numbers.)
    if (static_cast<std::int32_t>(consumed - acknowledged_) <= 0) return true;
    return acknowledge(consumed);
  }
  std::uint32_t acknowledged() const { return acknowledged_; }
  std::uint32_t next() const { return next_; }
  // Whether the message that send() numbered `number` has been consumed.
  bool is_consumed(std::uint32_t number) const {
    return static_cast<std::int32_t>(acknowledged_ - number) >= 0;
  }

 private:
  HeadCell& head_at(std::uint32_t n) const { return reinterpret_cast<HeadCell*>(cells_)[n & (count_ - 1)]; }
  TailCell& tail_at(std::uint32_t n) const { return reinterpret_cast<TailCell*>(cells_)[n & (count_ - 1)]; }

  std::byte* cells_ = nullptr;
  std::uint32_t count_ = 0;
  std::uint32_t next_ = 0;          // number of the next head cell
  std::uint32_t acknowledged_ = 0;  // cells consumed by the peer, as far as we know
  const std::atomic<std::uint32_t>* consumed_ = nullptr;
  HeadCell* express_ = nullptr;
  std::uint32_t express_number_ = 0;  // of the last message in the express area
};

class MessageReceiver {
 public:
  MessageReceiver() = default;
  MessageReceiver(const std::byte* cells, std::uint32_t count, std::atomic<std::uint32_t>* consumed,
                  const HeadCell* express = nullptr)
      : cells_(cells), count_(count), consumed_(consumed), express_(express) {}

  // Whether a message is there. Loads of lines that are ours until they change.
  bool has_message() {
    // A message of two cells is two lines that were both just written: fetching
    // the second while the first is being fetched saves one of the two waits.
    __builtin_prefetch(&head_at(next_ + 1));
    // acquire: pairs with release in MessageSender::send(); the message is complete (I1).
    if (is_next(head_at(next_))) {
      from_express_ = false;
      return true;
    }
    if (express_ == nullptr) return false;
    __builtin_prefetch(express_ + 1);
    from_express_ = is_next(*express_);
    return from_express_;
  }

  // The head of the next message, copied out and checked (I4); false: malformed.
  // Requires has_message(). Does not consume.
  bool peek(MessageHead& head, std::uint32_t& acknowledged);
  // Copies the payload of the message that peek() saw to `to` and consumes it;
  // false: malformed. `to` has room for `room` >= head.length bytes; of those
  // behind the payload some may be overwritten.
  bool take(const MessageHead& head, std::byte* to, std::uint32_t room);
  // Consumes without copying.
  void drop(const MessageHead& head) { advance(cells_of(head.length)); }

  // Running number of the next message, which is also what has been consumed.
  std::uint32_t next() const { return next_; }
  // Our sender has told `next()` in a message.
  void told() {
    told_ = next_;
    if (next_ - published_ >= kPublishCells) [[unlikely]]
      publish();
  }
  // Whether something was consumed that the peer does not know of.
  bool has_news() const { return told_ != next_; }
  // Tells what was consumed.
  void publish() {
    told_ = published_ = next_;
    // release: our reads of the cells are done before the sender may reuse them.
    consumed_->store(next_, std::memory_order_release);
  }

 private:
  const HeadCell& head_at(std::uint32_t n) const {
    return reinterpret_cast<const HeadCell*>(cells_)[n & (count_ - 1)];
  }
  const TailCell& tail_at(std::uint32_t n) const {
    return reinterpret_cast<const TailCell*>(cells_)[n & (count_ - 1)];
  }
  static constexpr std::uint32_t kPublishCells = 1u << 20;

  bool is_next(const HeadCell& cell) const {
    return static_cast<std::uint32_t>(cell.sequence.load(std::memory_order_acquire)) == next_ + 1;
  }
  const HeadCell& current() const { return from_express_ ? *express_ : head_at(next_); }
  // The tail with this running number of the current message.
  const TailCell& current_tail(std::uint32_t number) const {
    return from_express_ ? reinterpret_cast<const TailCell*>(express_)[number - next_] : tail_at(number);
  }
  void advance(std::uint32_t cells) {
    next_ += cells;
    // A quarter behind: tell now, or a sender without answers stalls.
    if (next_ - told_ >= count_ / 4) [[unlikely]]
      publish();
  }

  const std::byte* cells_ = nullptr;
  std::uint32_t count_ = 0;
  std::uint32_t next_ = 0;
  std::uint32_t told_ = 0;       // what the peer knows, by a message or published
  std::uint32_t published_ = 0;  // what stands in consumed_
  std::atomic<std::uint32_t>* consumed_ = nullptr;
  const HeadCell* express_ = nullptr;
  bool from_express_ = false;  // where has_message() saw the next message
};

inline bool MessageReceiver::peek(MessageHead& head, std::uint32_t& acknowledged) {
  const HeadCell& cell = current();
  // relaxed: has_message() has acquired the first word.
  const std::uint64_t what = cell.what.load(std::memory_order_relaxed);
  const auto kind_length = static_cast<std::uint32_t>(what);
  acknowledged = static_cast<std::uint32_t>(cell.sequence.load(std::memory_order_relaxed) >> 32);
  head.immediate = static_cast<std::uint32_t>(what >> 32);
  head.length = kind_length & kLengthMask;
  head.kind = static_cast<MessageKind>(kind_length >> 28);
  const bool known = head.kind == MessageKind::kSend ||
                     (head.kind == MessageKind::kWriteImm && head.length == sizeof(std::uint32_t));
  // Two of the longest message fit the ring, so more than half is no message.
  return known && cells_of(head.length) <= (from_express_ ? kExpressCells : count_ / 2);
}

inline bool MessageReceiver::take(const MessageHead& head, std::byte* to, std::uint32_t room) {
  const std::uint32_t first = std::min<std::uint32_t>(head.length, HeadCell::kPayload);
  if (room >= HeadCell::kPayload) [[likely]] {
    // All of it, in moves of one fixed size: what reads the message next can then
    // take it from the store buffer, which it cannot after overlapping moves.
    for (std::size_t at = 0; at < HeadCell::kPayload; at += 16)
      sync::shared_copy(to + at, current().payload + at, 16);
  } else if (first != 0) {  // Nothing may go nowhere.
    sync::shared_copy(to, current().payload, first);
  }
  std::uint32_t left = head.length - first;
  to += first;
  for (std::uint32_t number = next_ + 1; left != 0; ++number) {
    const TailCell& tail = current_tail(number);
    // relaxed: the head's sequence was acquired; this is only a check (I3).
    if (tail.sequence.load(std::memory_order_relaxed) != number + 1) [[unlikely]]
      return false;
    const std::uint32_t bytes = std::min<std::uint32_t>(left, TailCell::kPayload);
    sync::shared_copy(to, tail.payload, bytes);
    to += bytes;
    left -= bytes;
  }
  advance(cells_of(head.length));
  return true;
}

}  // namespace yonder::fabric::shm
