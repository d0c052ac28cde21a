#include "yonder/cache/answer_scanner.h"

#include "yonder/cache/command_line.h"
#include "yonder/cache/numbers.h"

namespace yonder::cache {
namespace {

constexpr std::size_t kLongestLine = 4096;

// The length of the value that follows a line; nothing if none does.
Result<std::optional<std::size_t>> value_bytes(std::string_view line) {
  const bool classic = line.starts_with("VALUE ");
  if (!classic && !line.starts_with("VA ")) return std::nullopt;
  const std::optional<std::uint32_t> bytes = parse_u32(CommandLine(line)[classic ? 3 : 1]);
  if (!bytes) return fail(ErrorCode::kMalformedFrame, "answer of another server");
  return *bytes;
}

}  // namespace

Result<std::optional<std::size_t>> AnswerScanner::scan(std::string_view bytes) {
  while (at_ < bytes.size()) {
    const std::string_view rest = bytes.substr(at_);
    const std::size_t end = rest.find("\r\n");
    if (end == std::string_view::npos) {
      if (rest.size() > kLongestLine) return fail(ErrorCode::kMalformedFrame, "answer of another server");
      return std::nullopt;
    }
    const std::string_view line = rest.substr(0, end);
    if (line == "MN") return at_;
    YONDER_TRY(value, value_bytes(line));
    at_ += end + 2;
    if (value) at_ += *value + 2;
  }
  return std::nullopt;
}

}  // namespace yonder::cache
