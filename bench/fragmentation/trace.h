#pragma once
// Allocation traces: what a real program asked its allocator for, in one order.
//
//   record, 9 bytes, little endian:
//     byte 0     1       5      9
//         | op  | object | size |     op 1: alloc, size bytes; op 2: free, size 0
//
// An object's number names at most one live object and may be used again after its
// free. Files that end in .zst are unpacked by the program zstd.
//
// Concurrency: one thread. Lifetime: values.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "yonder/base/result.h"

namespace yonder::bench {

struct TraceRecord {
  enum class Op : std::uint8_t { kAlloc = 1, kFree = 2 };
  Op op;
  std::uint32_t object;
  std::uint32_t bytes;  // 0 for a free.
};
inline constexpr std::size_t kTraceRecordBytes = 9;

// kNotFound (no such file, no program zstd), kCorrupt (a record that is none, an
// object that is allocated twice or freed while it is not there).
Result<std::vector<TraceRecord>> read_trace(const std::string& path);
// The same from bytes.
Result<std::vector<TraceRecord>> parse_trace(std::span<const std::byte> bytes);
// For who has no file: a program that makes objects of many sizes, and then keeps one
// in three.
std::vector<TraceRecord> generate_trace(std::uint32_t objects, std::uint64_t seed);
void append_record(const TraceRecord& record, std::vector<std::byte>& bytes);

}  // namespace yonder::bench
