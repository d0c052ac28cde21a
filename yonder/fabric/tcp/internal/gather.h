#pragma once
// A list of memory pieces for one vectored system call.
//
// Concurrency: one thread. Lifetime: borrows the memory it lists.

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <span>

#include "yonder/fabric/types.h"

namespace yonder::fabric::tcp {

class Gather {
 public:
  // Two requests with all their pieces, or 64 small ones; a longer list gains
  // nothing, because the copy then dominates the call.
  static constexpr std::size_t kParts = 2 * (kMaxPieces + 2);

  bool is_full() const { return count_ == kParts; }
  bool is_empty() const { return count_ == 0; }
  std::size_t bytes() const { return bytes_; }
  std::span<const iovec> parts() const { return {parts_.data(), count_}; }

  // Ignored when full: whoever sends less than it wanted comes back. Joined with
  // the last part if it continues it, as neighbouring headers do: each part costs
  // the kernel as much as a small header's bytes.
  void add(const void* data, std::size_t length) {
    if (is_full() || length == 0) return;
    bytes_ += length;
    if (count_ != 0 && end_ == data) {
      parts_[count_ - 1].iov_len += length;
    } else {
      parts_[count_++] = {.iov_base = const_cast<void*>(data), .iov_len = length};
    }
    end_ = static_cast<const std::byte*>(data) + length;
  }

 private:
  std::array<iovec, kParts> parts_;
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;
  const void* end_ = nullptr;  // Of the last part.
};

// Adds bytes [from, to) of the concatenated pieces.
inline void add_range(Gather& out, std::span<const LocalPiece> pieces, std::uint64_t from, std::uint64_t to) {
  std::uint64_t start = 0;
  for (const LocalPiece& piece : pieces) {
    const std::uint64_t end = start + piece.length;
    if (end > from && start < to) {
      const std::uint64_t low = from > start ? from : start;
      const std::uint64_t high = to < end ? to : end;
      out.add(piece.data + (low - start), high - low);
    }
    start = end;
  }
}

}  // namespace yonder::fabric::tcp
