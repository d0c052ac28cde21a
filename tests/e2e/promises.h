#pragma once
// What a worker of structures_test.cc was promised, in a file that outlives it.
//
// Concurrency: one writer; others read what was true a moment ago.

#include <array>
#include <atomic>
#include <cstdint>

namespace yonder::e2e {

// The number that was acknowledged last, and the one that was tried after it.
struct Promise {
  std::atomic<std::uint64_t> acknowledged;
  std::atomic<std::uint64_t> attempted;
};

struct Promises {
  static constexpr std::size_t kKeys = 64;
  std::array<Promise, kKeys> keys;        // Of a table; a log and a lock have the first one only.
  std::atomic<std::uint64_t> operations;  // That succeeded.
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// Numbers of different workers differ.
constexpr std::uint64_t number_of(std::uint64_t worker, std::uint64_t count) { return worker << 32 | count; }
constexpr std::uint64_t worker_in(std::uint64_t number) { return number >> 32; }
constexpr std::uint64_t count_in(std::uint64_t number) { return number & 0xffffffff; }

// Of a table: every worker has keys of its own, spread over all buckets.
constexpr std::uint64_t key_name(std::uint64_t worker, std::uint64_t key) { return worker * 1000 + key; }

// Exit code of a worker whose node is gone.
inline constexpr int kLost = 3;

inline constexpr const char* kLogExtent = "e2e/log";
inline constexpr const char* kTableExtent = "e2e/table";
inline constexpr const char* kLockExtent = "e2e/lock";
// In the lock's extent.
inline constexpr std::uint64_t kLockWord = 0;
inline constexpr std::uint64_t kCountWord = 64;

}  // namespace yonder::e2e
