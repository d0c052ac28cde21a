#include "yonder/fabric/shm/internal/message_ring.h"

namespace yonder::fabric::shm {
namespace {

// Reads the bytes of scattered pieces as one stream.
class PieceReader {
 public:
  explicit PieceReader(std::span<const LocalPiece> pieces) : pieces_(pieces) {}

  void read(std::byte* to, std::uint32_t bytes) {
    while (bytes != 0) {
      const LocalPiece& piece = pieces_.front();
      const std::uint32_t count = std::min(bytes, piece.length - offset_);
      copy_plain(to, piece.data + offset_, count);
      to += count;
      bytes -= count;
      offset_ += count;
      if (offset_ == piece.length) {
        pieces_ = pieces_.subspan(1);
        offset_ = 0;
      }
    }
  }

 private:
  std::span<const LocalPiece> pieces_;
  std::uint32_t offset_ = 0;
};

}  // namespace

std::uint32_t MessageSender::send(const MessageHead& head, std::span<const LocalPiece> pieces,
                                  std::uint32_t consumed) {
  PieceReader reader(pieces);
  // Assembled here and stored in one go below. Zeroed: a short message must not
  // carry what was on our stack.
  alignas(16) std::byte payload[HeadCell::kPayload] = {};
  const std::uint32_t first = std::min<std::uint32_t>(head.length, HeadCell::kPayload);
  reader.read(payload, first);
  std::uint32_t left = head.length - first;
  std::uint32_t number = next_ + 1;
  for (; left != 0; ++number) {
    TailCell& tail = tail_at(number);
    const std::uint32_t bytes = std::min<std::uint32_t>(left, TailCell::kPayload);
    reader.read(tail.payload, bytes);
    // relaxed: published by the head's sequence below.
    tail.sequence.store(number + 1, std::memory_order_relaxed);
    left -= bytes;
  }
  // The receiver spins on this line. Stores that leave the store buffer back to
  // back reach it while the line is ours; stores that trickle lose the line to
  // the receiver in between, which costs a transfer each time.
  const bool express =
      express_ != nullptr && head.length <= HeadCell::kPayload && is_consumed(express_number_);
  HeadCell& cell = express ? *express_ : head_at(next_);
  if (express) express_number_ = number;
  std::memcpy(cell.payload, payload, sizeof payload);
  const std::uint32_t kind_length = static_cast<std::uint32_t>(head.kind) << 28 | head.length;
  cell.what.store(kind_length | std::uint64_t{head.immediate} << 32, std::memory_order_relaxed);
  // release: pairs with acquire in MessageReceiver::has_message() (I1).
  cell.sequence.store((next_ + 1) | std::uint64_t{consumed} << 32, std::memory_order_release);
  next_ = number;
  return number;
}

bool MessageReceiver::peek(MessageHead& head, std::uint32_t& acknowledged) {
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
  // Two of the longest message fit the ring, so more than half is no message; an
  // express message has one cell.
  return known && cells_of(head.length) <= (from_express_ ? 1 : count_ / 2);
}

bool MessageReceiver::take(const MessageHead& head, std::byte* to) {
  const std::uint32_t first = std::min<std::uint32_t>(head.length, HeadCell::kPayload);
  copy_plain(to, current().payload, first);
  std::uint32_t left = head.length - first;
  to += first;
  for (std::uint32_t number = next_ + 1; left != 0; ++number) {
    const TailCell& tail = tail_at(number);
    // relaxed: the head's sequence was acquired; this is only a check (I3).
    if (tail.sequence.load(std::memory_order_relaxed) != number + 1) [[unlikely]]
      return false;
    const std::uint32_t bytes = std::min<std::uint32_t>(left, TailCell::kPayload);
    copy_plain(to, tail.payload, bytes);
    to += bytes;
    left -= bytes;
  }
  advance(cells_of(head.length));
  return true;
}

}  // namespace yonder::fabric::shm
