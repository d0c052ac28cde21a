#pragma once
// Copies out of and into memory that others change at the same time.
//
// A region's owner, its local users and other peers may write while we copy:
// that is what one-sided access means (guarantee E5), and it is a data race as
// far as the C++ memory model goes. All such accesses of the provider are in
// these two functions. They move every aligned 8-byte word of the *shared* side
// with one load or store, so that no word is ever torn, and are hidden from
// ThreadSanitizer, which would report the very thing they are for.
//
// Why not let the kernel copy (sendmsg from, recv into the region): it cuts
// where TCP segments end, in the middle of words (65,483 bytes on loopback), so
// E5 would not hold; and a reply half sent would still refer to the region's
// memory when it is revoked. A copy through the stream's buffer, which stays in
// the L2 cache, costs about a tenth of what loopback TCP costs per byte.
//
// Concurrency: any thread, any concurrent access to the shared side.

#include <cstddef>
#include <cstdint>

namespace yonder::fabric::tcp {

void copy_from_shared(std::byte* to, const std::byte* shared, std::size_t count);
void copy_to_shared(std::byte* shared, const std::byte* from, std::size_t count);

// Of `count` bytes bound for `shared`, with more to follow: how many to copy now
// so that no aligned word is written in two steps. 0 if they end inside the word
// they began in.
constexpr std::size_t whole_words(std::uintptr_t shared, std::size_t count) {
  const std::uintptr_t end = (shared + count) & ~std::uintptr_t{7};
  return end > shared ? end - shared : 0;
}

// The atomics of kCpu regions; sequentially consistent. Requires alignment.
std::uint64_t shared_fetch_add(std::byte* word, std::uint64_t add);
std::uint64_t shared_compare_swap(std::byte* word, std::uint64_t compare, std::uint64_t swap);

}  // namespace yonder::fabric::tcp
