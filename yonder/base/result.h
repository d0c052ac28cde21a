#pragma once
// Result<T>: a T, or the Error that kept us from making one.
//
// Used for everything the world can cause: a peer's bytes, a full pool, a
// deadline. Our own bugs are YONDER_CHECK's business (check.h).
//
//   Result<Region> region = fabric.register_memory(memory);
//   if (!region) return std::unexpected(region.error());
// or, shorter, where the caller only passes errors on:
//   YONDER_TRY(region, fabric.register_memory(memory));
//
// Concurrency: values. Lifetime: owns its T.

#include <expected>

#include "yonder/base/error.h"

namespace yonder {

template <typename T>
using Result = std::expected<T, Error>;

// `return fail(ErrorCode::kOutOfBounds, "read", length);`
constexpr std::unexpected<Error> fail(ErrorCode code, const char* message, std::int64_t detail = 0) {
  return std::unexpected<Error>(Error(code, message, detail));
}

// Whether it worked, without the value.
template <typename T>
Result<void> outcome_of(const Result<T>& result) {
  if (result) return {};
  return std::unexpected(result.error());
}

// `return fail_errno("mmap");` right after the failed call.
inline std::unexpected<Error> fail_errno(const char* call) {
  return std::unexpected<Error>(Error::from_errno(call));
}

}  // namespace yonder

#define YONDER_CONCAT_(a, b) a##b
#define YONDER_CONCAT(a, b) YONDER_CONCAT_(a, b)

// Declares `name` from a Result expression, or returns its error to the caller.
#define YONDER_TRY(name, expression)                                      \
  auto YONDER_CONCAT(try_result_, __LINE__) = (expression);               \
  if (!YONDER_CONCAT(try_result_, __LINE__)) [[unlikely]]                 \
    return std::unexpected(YONDER_CONCAT(try_result_, __LINE__).error()); \
  auto name = std::move(*YONDER_CONCAT(try_result_, __LINE__))

// The same for Result<void>.
#define YONDER_TRY_VOID(expression)                                                                    \
  if (auto YONDER_CONCAT(try_result_, __LINE__) = (expression); !YONDER_CONCAT(try_result_, __LINE__)) \
      [[unlikely]]                                                                                     \
  return std::unexpected(YONDER_CONCAT(try_result_, __LINE__).error())
