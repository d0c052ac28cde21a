#include "yonder/cache/meta_protocol.h"

#include <cstring>
#include <limits>
#include <optional>

#include "yonder/cache/base64.h"
#include "yonder/cache/numbers.h"
#include "yonder/cache/text_protocol.h"

namespace yonder::cache {
namespace {

constexpr std::string_view kBadToken = "CLIENT_ERROR bad token in command line format";
constexpr std::string_view kBadFlag = "CLIENT_ERROR invalid flag";
constexpr std::string_view kDuplicate = "CLIENT_ERROR duplicate flag";
constexpr std::size_t kMaxWords = 19;

// Reads flags one after the other; remembers the last complaint, as later flags may end
// the line for worse ones.
class FlagReader {
 public:
  FlagReader(MetaKind kind, MetaLine& out) : kind_(kind), out_(out), flags_(out.flags) {}

  // False: nothing after this flag counts.
  bool read(std::string_view token) {
    const auto flag = static_cast<unsigned char>(token[0]);
    if (flag >= seen_.size() || seen_[flag]) return stop(kDuplicate);
    seen_[flag] = true;
    return apply(token[0], token.substr(1), token.size());
  }
  bool failed() const { return failed_; }
  std::string_view complaint() const { return complaint_; }

 private:
  bool stop(std::string_view why) {
    complain(why);
    return false;
  }
  void complain(std::string_view why) {
    complaint_ = why;
    failed_ = true;
  }
  template <typename T>
  bool take(const std::optional<T>& number, T& to, std::string_view why) {
    if (number) {
      to = *number;
    } else {
      complain(why);
    }
    return number.has_value();
  }

  bool apply(char flag, std::string_view argument, std::size_t length) {
    switch (flag) {
      case 'b':
        decode_key();
        return true;
      case 'N':
        flags_.has_vivify = true;
        take(parse_i32(argument), flags_.vivify, kBadToken);
        return true;
      case 'T':
        flags_.has_ttl = take(parse_i32(argument), flags_.ttl, kBadToken);
        return true;
      case 'R':
        flags_.has_recache = take(parse_i32(argument), flags_.recache, kBadToken);
        return true;
      case 'F':
        // memcached names no reason of its own here.
        take(parse_u32(argument), flags_.client_flags, complaint_);
        return true;
      case 'C':
        flags_.has_cas = take(parse_u64(argument), flags_.cas, kBadToken);
        return true;
      case 'M':
        if (length == 2) {
          flags_.mode = argument[0];
        } else {
          complain("CLIENT_ERROR incorrect length for M token");
        }
        return true;
      case 'J':
        take(parse_u64(argument), flags_.initial, "CLIENT_ERROR invalid numeric initial value");
        return true;
      case 'D':
        take(parse_u64(argument), flags_.delta, "CLIENT_ERROR invalid numeric delta value");
        return true;
      default:
        return apply_plain(flag);
    }
  }

  bool apply_plain(char flag) {
    switch (flag) {
      case 'v':
        flags_.value = true;
        return true;
      case 'u':
        flags_.no_bump = true;
        return true;
      case 'q':
        flags_.quiet = true;
        return true;
      case 'I':
        flags_.invalidate = true;
        return true;
      case 'w':
        if (kind_ != MetaKind::kGet) return stop(kBadFlag);
        flags_.where = true;
        return true;
      case 'O':
      case 'P':
      case 'L':
      case 'k':
      case 's':
      case 't':
      case 'c':
      case 'f':
      case 'l':
      case 'h':
        return true;
      default:
        return stop(kBadFlag);
    }
  }

  void decode_key() {
    flags_.binary_key = true;
    std::array<char, kMaxKeyBytes> decoded;
    const std::optional<std::size_t> size = decode_base64(out_.key(), decoded);
    if (!size) return complain("CLIENT_ERROR error decoding key");
    std::memcpy(out_.key_bytes.data(), decoded.data(), *size);
    out_.key_size = *size;
  }

  const MetaKind kind_;
  MetaLine& out_;
  MetaFlags& flags_;
  std::array<bool, 127> seen_{};
  bool failed_ = false;
  std::string_view complaint_ = kBadFormat;
};

std::expected<void, MetaError> read_flags(MetaKind kind, const CommandLine& line, MetaLine& out,
                                          std::uint64_t swallow) {
  FlagReader reader(kind, out);
  for (std::size_t i = out.first_flag; i < line.size(); ++i) {
    if (!reader.read(line[i])) break;
  }
  if (reader.failed()) return std::unexpected(MetaError{reader.complaint(), swallow});
  return {};
}

}  // namespace

std::expected<void, MetaError> parse_meta(MetaKind kind, const CommandLine& line, MetaLine& out) {
  const auto refuse = [](std::string_view reply) { return std::unexpected(MetaError{reply}); };
  if (line.size() < 2) return refuse("ERROR");
  if (line[1].size() > kMaxKeyBytes) return refuse(kBadFormat);
  out.key_size = line[1].size();
  std::memcpy(out.key_bytes.data(), line[1].data(), out.key_size);
  if (kind == MetaKind::kSet && line.size() == 2) return refuse(kBadFormat);
  if (line.size() >= kMaxWords + 1) {
    return refuse(kind == MetaKind::kGet ? "CLIENT_ERROR options flags are too long"
                                         : "CLIENT_ERROR options flags too long");
  }
  std::uint64_t swallow = 0;
  if (kind == MetaKind::kSet) {
    out.first_flag = 3;
    const std::optional<std::int32_t> bytes = parse_i32(line[2]);
    if (!bytes || *bytes < 0 || *bytes > std::numeric_limits<std::int32_t>::max() - 2)
      return refuse(kBadFormat);
    out.value_bytes = static_cast<std::uint32_t>(*bytes);
    swallow = std::uint64_t{out.value_bytes} + 2;
  }
  const auto flags = read_flags(kind, line, out, swallow);
  if (flags || kind == MetaKind::kGet || kind == MetaKind::kSet) return flags;
  return refuse("CLIENT_ERROR invalid or duplicate flag");
}

std::expected<StoreMode, MetaError> meta_store_mode(const MetaFlags& flags) {
  switch (flags.mode) {
    case 0:
    case 'S':
      return flags.has_cas ? StoreMode::kCas : StoreMode::kSet;
    case 'R':
      return flags.has_cas ? StoreMode::kCas : StoreMode::kReplace;
    case 'E':
      return StoreMode::kAdd;
    case 'A':
      return StoreMode::kAppend;
    case 'P':
      return StoreMode::kPrepend;
    default:
      return std::unexpected(MetaError{"CLIENT_ERROR invalid mode for ms M token"});
  }
}

}  // namespace yonder::cache
