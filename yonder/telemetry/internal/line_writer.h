#pragma once
// LineWriter: one line of text put together without allocation and written with
// one write(), for signal handlers.
//
// Concurrency: one thread. Lifetime: a local variable; what does not fit the
// buffer is cut off.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace yonder::telemetry::internal {

class LineWriter {
 public:
  LineWriter& text(std::string_view text);
  LineWriter& number(std::uint64_t value, std::size_t min_digits = 1);
  // "+1.000000250"
  LineWriter& seconds(std::int64_t ns);
  // Ends the line, writes it to `fd` and starts the next one.
  void flush(int fd);

 private:
  void put(char c);
  std::array<char, 256> buffer_;
  std::size_t used_ = 0;
};

}  // namespace yonder::telemetry::internal
