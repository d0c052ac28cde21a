#include "yonder/offload/function_name.h"

#include <algorithm>

namespace yonder::offload {

bool is_name_part(std::string_view text) {
  // Not isalnum(): which letters there are must not depend on a locale.
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !text.empty() && text.size() <= kMaxNamePart && std::ranges::all_of(text, good);
}

Result<FunctionName> FunctionName::parse(std::string_view text) {
  const std::size_t dot = text.find('.');
  if (dot == std::string_view::npos || !is_name_part(text.substr(0, dot)) ||
      !is_name_part(text.substr(dot + 1))) {
    return fail(ErrorCode::kInvalidArgument, "offload: a function's name is LIBRARY.FUNCTION",
                static_cast<std::int64_t>(text.size()));
  }
  return FunctionName{.library = std::string(text.substr(0, dot)),
                      .function = std::string(text.substr(dot + 1))};
}

}  // namespace yonder::offload
