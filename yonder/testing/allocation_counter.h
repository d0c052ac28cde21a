#pragma once
// How many times this program called operator new: for tests that something allocates
// nothing. Include it in the one file of a test program that asks; it replaces the
// global operators of that program.
//
// The runtime of ThreadSanitizer brings operators of its own that cannot be replaced:
// there kCountsAllocations is false and the count stays 0.
//
// Concurrency: any thread.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define YONDER_FIXED_ALLOCATOR
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define YONDER_FIXED_ALLOCATOR
#endif

namespace yonder::testing {

#ifdef YONDER_FIXED_ALLOCATOR
inline constexpr bool kCountsAllocations = false;
#else
inline constexpr bool kCountsAllocations = true;
#endif

inline std::atomic<std::uint64_t> g_allocations{0};

// Relaxed: a thread sees its own allocations, and a test joins the others first.
inline std::uint64_t allocations() { return g_allocations.load(std::memory_order_relaxed); }

}  // namespace yonder::testing

#ifndef YONDER_FIXED_ALLOCATOR
// Not inlined, because g++ would then see free() meet a pointer from new and warn. The
// nothrow form is replaced too: under ASan it would not come through here, but its
// delete would. Arrays come through here by themselves, or, under ASan, neither they
// nor their delete do.
[[gnu::noinline]] void* operator new(std::size_t size) {
  yonder::testing::g_allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(size)) return memory;
  std::abort();
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return operator new(size);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
#endif
