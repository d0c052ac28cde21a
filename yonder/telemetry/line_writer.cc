#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "yonder/telemetry/internal/line_writer.h"

namespace yonder::telemetry::internal {

void LineWriter::put(char c) {
  if (used_ + 1 < buffer_.size()) buffer_[used_++] = c;  // The last byte is the newline's.
}

LineWriter& LineWriter::text(std::string_view text) {
  for (const char c : text) put(c);
  return *this;
}

LineWriter& LineWriter::number(std::uint64_t value, std::size_t min_digits) {
  std::array<char, 20> digits{};  // 2^64 has 20.
  std::size_t count = 0;
  do {
    digits[count++] = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value != 0 || count < std::min(min_digits, digits.size()));
  while (count != 0) put(digits[--count]);
  return *this;
}

LineWriter& LineWriter::seconds(std::int64_t ns) {
  const bool negative = ns < 0;
  // Negating in unsigned arithmetic is defined for every value.
  const std::uint64_t magnitude =
      negative ? 0 - static_cast<std::uint64_t>(ns) : static_cast<std::uint64_t>(ns);
  put(negative ? '-' : '+');
  return number(magnitude / 1'000'000'000).text(".").number(magnitude % 1'000'000'000, 9);
}

void LineWriter::flush(int fd) {
  buffer_[used_++] = '\n';
  std::size_t written = 0;
  while (written < used_) {
    const ssize_t count = ::write(fd, buffer_.data() + written, used_ - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;  // A dump that cannot be written must not stop the one who fails.
    written += static_cast<std::size_t>(count);
  }
  used_ = 0;
}

}  // namespace yonder::telemetry::internal
