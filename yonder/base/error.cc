#include "yonder/base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ostream>

namespace yonder {
namespace {

struct Entry {
  ErrorCode code;
  std::string_view name;
  std::string_view cause;
  std::string_view remedy;
};

constexpr Entry kEntries[] = {
    {ErrorCode::kOk, "Ok", "nothing went wrong", "nothing to do"},
#define YONDER_ERROR(number, name, cause, remedy) {ErrorCode::k##name, #name, cause, remedy},
#include "yonder/base/error_codes.inc"
#undef YONDER_ERROR
};

constexpr Entry kUnknown{ErrorCode::kOk, "Unknown", "this version does not know the code",
                         "compare the versions"};

const Entry& entry(ErrorCode code) {
  const auto* found = std::ranges::find(kEntries, code, &Entry::code);
  return found == std::end(kEntries) ? kUnknown : *found;
}

ErrorCode code_of_errno(int error_number) {
  switch (error_number) {
    case ENOMEM:
      return ErrorCode::kOutOfMemory;
    case EMFILE:
    case ENFILE:
    case ENOSPC:
      return ErrorCode::kResourceExhausted;
    case EACCES:
    case EPERM:
      return ErrorCode::kPermissionDenied;
    case ENOENT:
      return ErrorCode::kNotFound;
    case EEXIST:
    case EADDRINUSE:
      return ErrorCode::kAlreadyExists;
    case ENOSYS:
    case EOPNOTSUPP:
      return ErrorCode::kUnsupported;
    case ETIMEDOUT:
      return ErrorCode::kDeadlineExceeded;
    case ECONNREFUSED:
      return ErrorCode::kConnectionRefused;
    case EPIPE:
    case ECONNRESET:
      return ErrorCode::kConnectionLost;
    default:
      return ErrorCode::kOsError;
  }
}

}  // namespace

std::string_view error_name(ErrorCode code) { return entry(code).name; }
std::string_view error_cause(ErrorCode code) { return entry(code).cause; }
std::string_view error_remedy(ErrorCode code) { return entry(code).remedy; }
bool is_known(ErrorCode code) { return &entry(code) != &kUnknown; }

Error Error::from_errno(const char* call) { return from_errno(call, errno); }
Error Error::from_errno(const char* call, int error_number) {
  return Error(code_of_errno(error_number), call, error_number);
}

std::string Error::to_string() const {
  return fmt::format("{}: {} ({}, detail {})", message_, error_cause(code_), error_name(code_), detail_);
}

std::ostream& operator<<(std::ostream& out, const Error& error) { return out << error.to_string(); }
std::ostream& operator<<(std::ostream& out, ErrorCode code) { return out << error_name(code); }

}  // namespace yonder
