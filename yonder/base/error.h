#pragma once
// What went wrong, as a value: a stable code, a static sentence, one number.
//
// Errors are made on hot paths and by hostile input, so making, copying and
// dropping one allocates nothing. `message` is always a string literal: it says
// what was attempted ("map region"); the code says why it failed; `detail`
// carries the number that matters (errno, a length, a key index).
//
// Concurrency: values; safe everywhere. Lifetime: `message` has static storage.

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

namespace yonder {

// Stable numbers; see error_codes.inc. kOk never appears inside an Error: it is
// there so that a completion or a wire field can say "no error".
enum class ErrorCode : std::uint16_t {
  kOk = 0,
#define YONDER_ERROR(number, name, cause, remedy) k##name = (number),
#include "yonder/base/error_codes.inc"
#undef YONDER_ERROR
};

// "DeadlineExceeded"; "Unknown" for a number this version does not know.
std::string_view error_name(ErrorCode code);
// Why it happens and what to do: the sentences of docs/errors.md.
std::string_view error_cause(ErrorCode code);
std::string_view error_remedy(ErrorCode code);
// True if this version knows the number: a peer may send any.
bool is_known(ErrorCode code);

class [[nodiscard]] Error {
 public:
  // `message` must be a string literal (static storage).
  constexpr Error(ErrorCode code, const char* message, std::int64_t detail = 0)
      : message_(message), detail_(detail), code_(code) {}

  // The failed system call `call` (a literal) with the current errno. Common
  // errnos become their own code (ENOMEM, EMFILE, EACCES …), others kOsError.
  static Error from_errno(const char* call);
  static Error from_errno(const char* call, int error_number);

  constexpr ErrorCode code() const { return code_; }
  constexpr const char* message() const { return message_; }
  constexpr std::int64_t detail() const { return detail_; }

  // One line for people: "map region: the deadline passed … (DeadlineExceeded, detail 7)".
  std::string to_string() const;

  // Two errors are the same if their codes are: the text is for people.
  friend constexpr bool operator==(const Error& a, const Error& b) { return a.code_ == b.code_; }
  friend constexpr bool operator==(const Error& a, ErrorCode b) { return a.code_ == b; }

 private:
  const char* message_;
  std::int64_t detail_;
  ErrorCode code_;
};

std::ostream& operator<<(std::ostream& out, const Error& error);
std::ostream& operator<<(std::ostream& out, ErrorCode code);

}  // namespace yonder
