#include "yonder/fabric/shm/internal/message_ring.h"

namespace yonder::fabric::shm {
namespace {

// How many cells ahead a sender fetches the lines of the ring.
constexpr std::uint32_t kAhead = 8;

// Reads the bytes of scattered pieces as one stream.
class PieceReader {
 public:
  explicit PieceReader(std::span<const LocalPiece> pieces) : pieces_(pieces) {}

  void read(std::byte* to, std::uint32_t bytes) {
    if (bytes == 0) return;  // Nothing may lie nowhere.
    if (pieces_.size() == 1) [[likely]] {
      sync::shared_copy(to, pieces_.front().data + offset_, bytes);
      offset_ += bytes;
      return;
    }
    while (bytes != 0) {
      const LocalPiece& piece = pieces_.front();
      const std::uint32_t count = std::min(bytes, piece.length - offset_);
      sync::shared_copy(to, piece.data + offset_, count);
      to += count;
      bytes -= count;
      offset_ += count;
      if (offset_ == piece.length) {
        pieces_ = pieces_.subspan(1);
        offset_ = 0;
      }
    }
  }

  // Requires one piece.
  void skip(std::uint32_t bytes) { offset_ += bytes; }

 private:
  std::span<const LocalPiece> pieces_;
  std::uint32_t offset_ = 0;
};

using Word = std::uint64_t __attribute__((may_alias));
constexpr std::size_t kHeadWords = HeadCell::kPayload / 8;

// Loaded word by word: whoever made the message has just stored it in words or
// less, and a wider load would wait until those stores have left the store
// buffer. Zero behind the end: a short message must not carry what was there.
[[gnu::always_inline]] inline void load_head(const std::byte* from, std::uint32_t bytes,
                                             std::uint64_t (&words)[kHeadWords]) {
#pragma GCC unroll 6
  for (std::uint32_t i = 0; i < kHeadWords; ++i) {
    words[i] = 0;
    if (bytes >= 8 * (i + 1)) {
      std::memcpy(&words[i], from + 8 * i, 8);
    } else if (bytes > 8 * i) {
      std::memcpy(&words[i], from + 8 * i, bytes - 8 * i);
    }
  }
}

}  // namespace

std::uint32_t MessageSender::send(const MessageHead& head, std::span<const LocalPiece> pieces,
                                  std::uint32_t consumed) {
  PieceReader reader(pieces);
  std::uint64_t words[kHeadWords];
  const std::uint32_t first = std::min<std::uint32_t>(head.length, HeadCell::kPayload);
  if (pieces.size() == 1) [[likely]] {
    load_head(pieces.front().data, first, words);
    reader.skip(first);
  } else {
    std::byte payload[HeadCell::kPayload];
    reader.read(payload, first);
    load_head(payload, first, words);
  }
  const bool express =
      express_ != nullptr && cells_of(head.length) <= kExpressCells && is_consumed(express_number_);
  std::uint32_t left = head.length - first;
  std::uint32_t number = next_ + 1;
  for (; left != 0; ++number) {
    TailCell& tail = express ? reinterpret_cast<TailCell*>(express_)[number - next_] : tail_at(number);
    const std::uint32_t bytes = std::min<std::uint32_t>(left, TailCell::kPayload);
    reader.read(tail.payload, bytes);
    // relaxed: published by the head's sequence below.
    tail.sequence.store(number + 1, std::memory_order_relaxed);
    left -= bytes;
  }
  // The receiver spins on this line. Stores that leave the store buffer back to
  // back reach it while the line is ours; stores that trickle lose the line to
  // the receiver in between, which costs a transfer each time.
  HeadCell& cell = express ? *express_ : head_at(next_);
  for (std::size_t i = 0; i < kHeadWords; ++i) {
    // relaxed: published by the sequence below.
    __atomic_store_n(reinterpret_cast<Word*>(cell.payload) + i, words[i], __ATOMIC_RELAXED);
  }
  const std::uint32_t kind_length = static_cast<std::uint32_t>(head.kind) << 28 | head.length;
  cell.what.store(kind_length | std::uint64_t{head.immediate} << 32, std::memory_order_relaxed);
  // release: pairs with acquire in MessageReceiver::has_message() (I1).
  cell.sequence.store((next_ + 1) | std::uint64_t{consumed} << 32, std::memory_order_release);
  next_ = number;
  if (express) {
    express_number_ = number;
  } else {
    // A stream: fetch a line that we shall write soon, while nobody looks at it.
    asm volatile("prefetchw %0" : : "m"(head_at(number + kAhead)));
  }
  return number;
}

}  // namespace yonder::fabric::shm
