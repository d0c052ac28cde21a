#pragma once
// The lines of memcached's meta protocol: mg, ms, md, ma.
//
//   mg KEY FLAG*        ms KEY BYTES FLAG*        md KEY FLAG*        ma KEY FLAG*
//
// A flag is one character, some with an argument right behind it. Any command accepts
// any known flag; those that mean nothing to it are ignored. Replies to bad lines are
// memcached 1.6.18's, byte for byte.
//
// Concurrency: pure functions. Lifetime: a MetaLine borrows the line and holds the
// decoded key itself.

#include <array>
#include <cstdint>
#include <expected>
#include <string_view>

#include "yonder/cache/command_line.h"
#include "yonder/cache/key.h"
#include "yonder/cache/partition.h"

namespace yonder::cache {

enum class MetaKind : std::uint8_t { kGet, kSet, kDelete, kArithmetic };

// Of an opaque token, with its O.
inline constexpr std::size_t kMaxOpaqueBytes = 32;
inline constexpr std::string_view kOpaqueTooLong = "CLIENT_ERROR opaque token too long";

struct MetaFlags {
  bool binary_key = false;   // b
  bool value = false;        // v
  bool no_bump = false;      // u
  bool quiet = false;        // q
  bool invalidate = false;   // I
  bool where = false;        // w, ours: mg only
  bool has_vivify = false;   // N
  bool has_ttl = false;      // T
  bool has_recache = false;  // R
  bool has_cas = false;      // C
  char mode = 0;             // M
  std::int32_t vivify = 0;
  std::int32_t ttl = 0;
  std::int32_t recache = 0;
  std::uint32_t client_flags = 0;  // F
  std::uint64_t cas = 0;
  std::uint64_t delta = 1;    // D
  std::uint64_t initial = 0;  // J
};

struct MetaError {
  std::string_view reply;
  // Of ms: this much of the value, with its line end, follows and is to be skipped.
  std::uint64_t swallow = 0;
};

struct MetaLine {
  MetaFlags flags;
  std::size_t first_flag = 2;  // Which words of the line are flags.
  std::uint32_t value_bytes = 0;

  // The key as it is stored: decoded if it came as base64.
  std::string_view key() const { return {key_bytes.data(), key_size}; }
  std::array<char, kMaxKeyBytes> key_bytes;
  std::size_t key_size = 0;
};

// Reads the line of a command of this kind into `out`.
std::expected<void, MetaError> parse_meta(MetaKind kind, const CommandLine& line, MetaLine& out);

// Of ms: what M and C make of it. Nothing if M is none of its modes.
std::expected<StoreMode, MetaError> meta_store_mode(const MetaFlags& flags);

}  // namespace yonder::cache
