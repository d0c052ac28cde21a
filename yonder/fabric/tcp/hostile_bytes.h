#pragma once
// Feeds arbitrary bytes to everything that reads a peer's bytes, and checks what
// must hold whatever they are. The fuzzers of fuzz/ are one call each.
//
// Concurrency: one call at a time per thread. Every broken promise is a
// YONDER_CHECK: the process ends.

#include <cstddef>
#include <span>

namespace yonder::fabric::tcp {

// The frame parser: says the same however the bytes are cut. The first byte seeds
// the cuts.
void parse_hostile_bytes(std::span<const std::byte> bytes);

// A target's stream that is sent these bytes in pieces, over a region whose key
// stands in them as kKeyPlaceholder: nothing outside the region changes, the
// output stays bounded, and what comes out is well-formed replies.
void serve_hostile_bytes(std::span<const std::byte> bytes);

// An initiator's stream that is answered with these bytes: no request completes
// twice, nothing is written outside the buffers of requests under way.
void answer_with_hostile_bytes(std::span<const std::byte> bytes);

// "KEYKEYKE" as it lies in memory: serve_hostile_bytes puts the real key there.
inline constexpr std::size_t kKeyPlaceholderBytes = 8;
inline constexpr char kKeyPlaceholder[kKeyPlaceholderBytes + 1] = "KEYKEYKE";

}  // namespace yonder::fabric::tcp
