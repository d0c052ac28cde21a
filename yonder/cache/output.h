#pragma once
// Output: the replies of a connection that are not sent yet, in one piece of memory.
//
// One piece, so that many small replies leave with one system call and no list of
// parts has to be built; values are copied into it, which for the usual short ones is
// cheaper than to remember where they are.
//
// Concurrency: one thread at a time. Lifetime: owns its memory, which it keeps up to
// kKeep bytes when it is empty.

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

namespace yonder::cache {

class Output {
 public:
  static constexpr std::size_t kKeep = std::size_t{64} << 10;

  std::size_t size() const { return end_ - begin_; }
  bool empty() const { return begin_ == end_; }
  std::span<const char> pending() const { return {memory_.get() + begin_, size()}; }
  std::string_view text() const { return {memory_.get() + begin_, size()}; }

  // Room for `bytes` at the end; what is written there counts after commit().
  char* reserve(std::size_t bytes) {
    if (capacity_ - end_ < bytes) grow(bytes);
    return memory_.get() + end_;
  }
  void commit(std::size_t bytes) { end_ += bytes; }

  void append(std::string_view text) {
    if (text.empty()) return;  // memcpy takes no address of nothing.
    std::memcpy(reserve(text.size()), text.data(), text.size());
    end_ += text.size();
  }
  void append(char c) {
    *reserve(1) = c;
    ++end_;
  }
  void append_number(std::uint64_t number) {
    char* at = reserve(kMaxDigits);
    end_ += static_cast<std::size_t>(std::to_chars(at, at + kMaxDigits, number).ptr - at);
  }
  void append_signed(std::int64_t number) {
    char* at = reserve(kMaxDigits);
    end_ += static_cast<std::size_t>(std::to_chars(at, at + kMaxDigits, number).ptr - at);
  }
  void append_line(std::string_view text) {
    append(text);
    append("\r\n");
  }

  // Takes back what was appended since size() was `size`. Requires that nothing was sent since.
  void truncate(std::size_t size) { end_ = begin_ + size; }
  // The first `bytes` are sent.
  void consume(std::size_t bytes) {
    begin_ += bytes;
    if (begin_ != end_) return;
    begin_ = end_ = 0;
    if (capacity_ > kKeep) {
      memory_.reset();
      capacity_ = 0;
    }
  }

 private:
  static constexpr std::size_t kMaxDigits = 20;
  void grow(std::size_t bytes);

  std::unique_ptr<char[]> memory_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace yonder::cache
