#pragma once
// FunctionName: "library.function", as a client says it.
//
// The name comes from a peer, and the library's part becomes the name of a file: so both
// parts are letters, digits and '_' only, and no name can lead out of the directory.
//
// Concurrency and lifetime: a value.

#include <cstddef>
#include <string>
#include <string_view>

#include "yonder/base/result.h"

namespace yonder::offload {

inline constexpr std::size_t kMaxNamePart = 48;
inline constexpr std::size_t kMaxFunctionName = 2 * kMaxNamePart + 1;

struct FunctionName {
  std::string library;
  std::string function;

  // kInvalidArgument: not two parts of 1 to kMaxNamePart letters, digits and '_'.
  static Result<FunctionName> parse(std::string_view text);
  std::string file() const { return library + ".so"; }

  friend bool operator==(const FunctionName&, const FunctionName&) = default;
};

// Whether it can be one of the two parts.
bool is_name_part(std::string_view text);

}  // namespace yonder::offload
