#include "yonder/cache/command_line.h"

#include <algorithm>

namespace yonder::cache {

std::string_view trim_line(std::string_view line) {
  line.remove_suffix(1);
  if (line.size() > 1 && line.back() == '\r') line.remove_suffix(1);
  return line;
}

std::string_view next_token(std::string_view& text) {
  const std::size_t first = std::min(text.find_first_not_of(' '), text.size());
  const std::size_t last = std::min(text.find(' ', first), text.size());
  const std::string_view token = text.substr(first, last - first);
  text.remove_prefix(last);
  return token;
}

CommandLine::CommandLine(std::string_view line) {
  rest_ = line.substr(0, line.find('\0'));
  while (size_ < kMaxTokens) {
    const std::string_view token = next_token(rest_);
    if (token.empty()) return;
    tokens_[size_++] = token;
  }
}

}  // namespace yonder::cache
