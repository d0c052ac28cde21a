#include "yonder/cache/text_protocol.h"

#include <limits>

#include "yonder/cache/key.h"
#include "yonder/cache/numbers.h"

namespace yonder::cache {

std::optional<StoreMode> storage_mode(std::string_view command) {
  if (command == "set") return StoreMode::kSet;
  if (command == "add") return StoreMode::kAdd;
  if (command == "replace") return StoreMode::kReplace;
  if (command == "append") return StoreMode::kAppend;
  if (command == "prepend") return StoreMode::kPrepend;
  if (command == "cas") return StoreMode::kCas;
  return std::nullopt;
}

std::expected<StorageLine, LineError> parse_storage(const CommandLine& line) {
  StorageLine out;
  out.mode = *storage_mode(line[0]);
  const std::size_t words = out.mode == StoreMode::kCas ? 6 : 5;
  if (line.size() != words && line.size() != words + 1) return std::unexpected(LineError{"ERROR"});
  out.noreply = line.ends_with_noreply();
  const std::unexpected<LineError> bad(LineError{kBadFormat, out.noreply});
  out.key = line[1];
  if (out.key.size() > kMaxKeyBytes) return bad;
  const std::optional<std::uint32_t> flags = parse_u32(line[2]);
  const std::optional<std::int32_t> exptime = parse_i32(line[3]);
  const std::optional<std::int32_t> bytes = parse_i32(line[4]);
  if (!flags || !exptime || !bytes) return bad;
  if (out.mode == StoreMode::kCas) {
    const std::optional<std::uint64_t> cas = parse_u64(line[5]);
    if (!cas) return bad;
    out.cas = *cas;
  }
  if (*bytes < 0 || *bytes > std::numeric_limits<std::int32_t>::max() - 2) return bad;
  out.flags = *flags;
  out.exptime = *exptime;
  out.value_bytes = static_cast<std::uint32_t>(*bytes);
  return out;
}

Seconds expiry_of(std::int32_t exptime, Seconds now, Seconds started) {
  constexpr std::int32_t kLongestSpan = 60 * 60 * 24 * 30;
  if (exptime == 0) return 0;
  if (exptime < 0) return kAlreadyExpired;
  if (exptime <= kLongestSpan) return now + static_cast<Seconds>(exptime);
  const auto date = static_cast<Seconds>(exptime);
  return date <= started ? kAlreadyExpired : date;
}

}  // namespace yonder::cache
