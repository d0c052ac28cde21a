#pragma once
// The lines of memcached's classic text protocol: what they say, or why they are refused.
//
//   set|add|replace|append|prepend KEY FLAGS EXPTIME BYTES [noreply]
//   cas KEY FLAGS EXPTIME BYTES CAS [noreply]
//
// Replies to bad lines are memcached 1.6.18's, byte for byte.
//
// Concurrency: pure functions. Lifetime: what they return borrows the line.

#include <cstdint>
#include <expected>
#include <optional>
#include <string_view>

#include "yonder/cache/command_line.h"
#include "yonder/cache/partition.h"

namespace yonder::cache {

inline constexpr std::string_view kBadFormat = "CLIENT_ERROR bad command line format";
inline constexpr std::string_view kTooLarge = "SERVER_ERROR object too large for cache";
inline constexpr std::string_view kNoMemory = "SERVER_ERROR out of memory storing object";
inline constexpr std::string_view kBadChunk = "CLIENT_ERROR bad data chunk";
inline constexpr std::string_view kNotNumeric =
    "CLIENT_ERROR cannot increment or decrement non-numeric value";

struct LineError {
  std::string_view reply;
  bool silent = false;  // The line said noreply, and meant it before it went wrong.
};

struct StorageLine {
  StoreMode mode = StoreMode::kSet;
  std::string_view key;
  std::uint32_t flags = 0;
  std::int32_t exptime = 0;
  std::uint32_t value_bytes = 0;
  std::uint64_t cas = 0;
  bool noreply = false;
};

// Which storage command a word is.
std::optional<StoreMode> storage_mode(std::string_view command);
// Requires that the first word is a storage command.
std::expected<StorageLine, LineError> parse_storage(const CommandLine& line);

// When something expires that a client wants to live for `exptime`: nothing or for ever
// is 0, up to 30 days count from now, more is a date. What is over already is
// kAlreadyExpired.
inline constexpr Seconds kAlreadyExpired = 1;
Seconds expiry_of(std::int32_t exptime, Seconds now, Seconds started);

}  // namespace yonder::cache
