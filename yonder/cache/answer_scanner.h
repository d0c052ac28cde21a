#pragma once
// AnswerScanner: finds where another server's answer to a forwarded command ends.
//
// Every forwarded command is followed by "mn", whose reply "MN" marks the end of what came
// before, however much or little that is (noreply and q leave nothing). Values are skipped
// by their length, so a value that contains such a line ends nothing.
//
// Concurrency: one thread. Lifetime: a value; it remembers how far it has looked.

#include <cstddef>
#include <optional>
#include <string_view>

#include "yonder/base/result.h"

namespace yonder::cache {

class AnswerScanner {
 public:
  // Looks at the bytes of the answer so far, from its first; the same ones and more each
  // time. The length of the answer without its "MN" line, once that has come. Errors:
  // kMalformedFrame (a line without end, or a length that is none).
  Result<std::optional<std::size_t>> scan(std::string_view bytes);
  static constexpr std::size_t kMarkBytes = 4;  // "MN\r\n"

  // For the next answer.
  void reset() { at_ = 0; }

 private:
  std::size_t at_ = 0;  // Where the next line begins.
};

}  // namespace yonder::cache
