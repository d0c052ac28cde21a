#pragma once
// The two small buffers of a target's stream.
//
// OutputBuffer holds replies until the socket takes them; its size bounds what a
// peer that does not read can make us keep. WordWriter stores a payload that
// arrives in arbitrary pieces without ever writing an aligned word in two steps
// (guarantee E5).
//
// Why payloads are copied and not left to the kernel (sendmsg from, recv into the
// region): it cuts where TCP segments end, in the middle of words (65,483 bytes on
// loopback), so E5 would not hold; and a reply half sent would still refer to the
// region's memory when it is revoked. A copy through the stream's buffer, which
// stays in the L2 cache, costs about 6 % of the time of a loopback transfer (64 KiB
// pieces of 512 MiB, sent from a copy and from where they lie, 15 rounds each in turn).
//
// Concurrency: one thread at a time.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>

#include "yonder/base/check.h"
#include "yonder/sync/shared_copy.h"

namespace yonder::fabric::tcp {

class OutputBuffer {
 public:
  explicit OutputBuffer(std::size_t capacity) : capacity_(capacity) {}

  std::size_t room() const { return capacity_ - (end_ - begin_); }
  bool empty() const { return begin_ == end_; }
  std::span<const std::byte> pending() const { return {data_.get() + begin_, end_ - begin_}; }

  // `count` contiguous bytes to fill at once. Requires count <= room() (checked).
  std::byte* append(std::size_t count) {
    YONDER_CHECK(count <= room(), "replies are bounded before they are made");
    // Allocated when first needed: a thousand idle connections cost nothing.
    if (data_ == nullptr) data_ = std::make_unique_for_overwrite<std::byte[]>(capacity_);
    if (capacity_ - end_ < count) compact();
    std::byte* at = data_.get() + end_;
    end_ += count;
    return at;
  }
  void consume(std::size_t count) {
    begin_ += count;
    if (begin_ == end_) begin_ = end_ = 0;
  }

 private:
  void compact() {
    std::memmove(data_.get(), data_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }

  const std::size_t capacity_;
  std::unique_ptr<std::byte[]> data_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

// Of `count` bytes bound for `shared`, with more to follow: how many to copy now
// so that no aligned word is written in two steps. 0 if they end inside the word
// they began in.
constexpr std::size_t whole_words(std::uintptr_t shared, std::size_t count) {
  const std::uintptr_t end = (shared + count) & ~std::uintptr_t{7};
  return end > shared ? end - shared : 0;
}

class WordWriter {
 public:
  void start(std::byte* shared) {
    at_ = shared;
    carried_ = 0;
  }

  // Stores the next bytes of the payload; those of a word that is not complete
  // wait for the rest. `is_last`: nothing follows.
  void put(std::span<const std::byte> bytes, bool is_last) {
    if (carried_ != 0) {
      bytes = bytes.subspan(complete_word(bytes, is_last));
      if (carried_ != 0) return;
    }
    const std::size_t now =
        is_last ? bytes.size() : whole_words(reinterpret_cast<std::uintptr_t>(at_), bytes.size());
    sync::store_words(at_, bytes.data(), now);
    at_ += now;
    std::copy(bytes.begin() + static_cast<std::ptrdiff_t>(now), bytes.end(), carry_.begin());
    carried_ = bytes.size() - now;
  }

 private:
  // Fills the carried word; returns how many bytes it used.
  std::size_t complete_word(std::span<const std::byte> bytes, bool is_last) {
    const std::uintptr_t start = reinterpret_cast<std::uintptr_t>(at_);
    const std::size_t word_end = 8 - start % 8;  // Counted from at_.
    const std::size_t count = std::min(word_end - carried_, bytes.size());
    std::copy_n(bytes.begin(), count, carry_.begin() + carried_);
    carried_ += count;
    if (carried_ == word_end || (is_last && count == bytes.size())) {
      sync::store_words(at_, carry_.data(), carried_);
      at_ += carried_;
      carried_ = 0;
    }
    return count;
  }

  std::byte* at_ = nullptr;  // Where carry_[0] belongs, or the next byte.
  std::size_t carried_ = 0;  // Less than 8.
  std::array<std::byte, 8> carry_;
};

}  // namespace yonder::fabric::tcp
