#pragma once
// SeqLock: a small value that one thread writes and many read without disturbing
// it. Readers never block the writer; a reader that met a write tries again.
//
// States × operations (the sequence number is even between writes):
//   sequence   write begins   write ends   read begins    read ends
//   even s     s+1            cannot be    remembers s    valid if still s
//   odd s      cannot be      s+1          try again      try again
//
// I1  A word of the value changes only while the sequence is odd.
// I2  A reader that saw a word of write k sees sequence >= 2k-1 afterwards: each
//     word is stored with release after the odd number, and loaded with acquire.
// I3  A reader that saw sequence 2k first sees no word older than write k: the
//     even number is stored with release after all words, and loaded with acquire.
// So equal even numbers before and after mean that all words are of one write.
//
// The value is copied as relaxed-or-stronger atomic words, so there is no data
// race in the sense of the language and ThreadSanitizer stays quiet. Releases on
// the words take the place of fences, which that tool does not know; on x86 both
// are plain moves.
//
// Concurrency: one writer at a time (checked in debug builds), any readers.
// Lifetime: plain; also fit for memory shared between processes.
// Wrap: the sequence is 64 bits wide and cannot wrap within a read.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>

#include "yonder/base/check.h"
#include "yonder/sync/atomics.h"

namespace yonder::sync {

template <typename T, typename Atomics = StdAtomics>
class SeqLock {
  static_assert(std::is_trivially_copyable_v<T>, "the value is copied word by word");

 public:
  SeqLock() : SeqLock(T{}) {}
  explicit SeqLock(const T& value) { copy_in(value); }

  // Replaces the value. Requires that no other thread is writing.
  void write(const T& value) {
    const std::uint64_t sequence = sequence_.load(std::memory_order_relaxed);  // Only writers change it.
    YONDER_DCHECK(sequence % 2 == 0, "one writer at a time");
    sequence_.store(sequence + 1, std::memory_order_relaxed);  // Ordered before the words by their release.
    copy_in(value);
    sequence_.store(sequence + 2, std::memory_order_release);  // I3: pairs with the first load of try_read().
  }

  // The value, or nothing if a write was under way.
  std::optional<T> try_read() const {
    const std::uint64_t before = sequence_.load(std::memory_order_acquire);  // I3
    if (before % 2 != 0) return std::nullopt;
    const T value = copy_out();
    // Relaxed is enough: the acquire loads of the words keep it behind them (I2).
    if (sequence_.load(std::memory_order_relaxed) != before) return std::nullopt;
    return value;
  }

  // Tries up to `attempts` times.
  std::optional<T> try_read(unsigned attempts) const {
    for (unsigned i = 0; i < attempts; ++i)
      if (std::optional<T> value = try_read()) return value;
    return std::nullopt;
  }

  // How many writes have ended.
  std::uint64_t version() const { return sequence_.load(std::memory_order_acquire) / 2; }

 private:
  static constexpr std::size_t kWords = (sizeof(T) + 7) / 8;
  using Words = std::array<std::uint64_t, kWords>;

  void copy_in(const T& value) {
    Words words{};
    std::memcpy(words.data(), &value, sizeof value);
    for (std::size_t i = 0; i < kWords; ++i) words_[i].store(words[i], std::memory_order_release);  // I2
  }

  T copy_out() const {
    Words words;
    for (std::size_t i = 0; i < kWords; ++i) words[i] = words_[i].load(std::memory_order_acquire);  // I2
    std::array<std::byte, sizeof(T)> bytes;
    std::memcpy(bytes.data(), words.data(), sizeof(T));
    return std::bit_cast<T>(bytes);
  }

  typename Atomics::template Atomic<std::uint64_t> sequence_{0};
  std::array<typename Atomics::template Atomic<std::uint64_t>, kWords> words_{};
};

}  // namespace yonder::sync
