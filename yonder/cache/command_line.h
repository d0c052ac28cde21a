#pragma once
// CommandLine: one line from a client, cut at its spaces.
//
// Only spaces separate, as many as there are; a NUL byte ends the line; after
// kMaxTokens words the rest stays in one piece, which only the commands for many keys
// look at. All of that is how memcached cuts, and its error replies follow from it.
//
// Concurrency and lifetime: a value that borrows the line.

#include <array>
#include <cstddef>
#include <string_view>

namespace yonder::cache {

class CommandLine {
 public:
  static constexpr std::size_t kMaxTokens = 23;

  // `line` without its end of line.
  explicit CommandLine(std::string_view line);

  std::size_t size() const { return size_; }
  // The empty word for what is not there.
  std::string_view operator[](std::size_t i) const { return i < size_ ? tokens_[i] : std::string_view(); }
  // What follows the last word that was cut.
  std::string_view rest() const { return rest_; }
  bool ends_with_noreply() const { return size_ > 1 && tokens_[size_ - 1] == "noreply"; }

 private:
  std::array<std::string_view, kMaxTokens> tokens_;
  std::size_t size_ = 0;
  std::string_view rest_;
};

// A line without its "\\n" or "\\r\\n"; a lone "\\r" stays, as memcached has it.
std::string_view trim_line(std::string_view line);

// The first word of `text`, which moves to behind it; empty if there is none.
std::string_view next_token(std::string_view& text);

}  // namespace yonder::cache
