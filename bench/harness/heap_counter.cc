#include "bench/harness/heap_counter.h"

#include <atomic>
#include <cerrno>
#include <cstddef>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define YONDER_COUNT_HEAP 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define YONDER_COUNT_HEAP 0
#else
#define YONDER_COUNT_HEAP 1
#endif
#else
#define YONDER_COUNT_HEAP 1
#endif

namespace {

std::atomic<std::uint64_t> g_allocations{0};  // Has to be global: malloc is.

}  // namespace

namespace yonder::bench {

bool HeapCounter::available() { return YONDER_COUNT_HEAP != 0; }
std::uint64_t HeapCounter::allocations() { return g_allocations.load(std::memory_order_relaxed); }

}  // namespace yonder::bench

#if YONDER_COUNT_HEAP
namespace {

// relaxed: a statistic; readers wait for the counted threads by other means.
void count() { g_allocations.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

extern "C" {

void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* memory, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);

void* malloc(std::size_t size) {
  count();
  return __libc_malloc(size);
}
void* calloc(std::size_t number, std::size_t size) {
  count();
  return __libc_calloc(number, size);
}
void* realloc(void* memory, std::size_t size) {
  count();
  return __libc_realloc(memory, size);
}
void* memalign(std::size_t alignment, std::size_t size) {
  count();
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  count();
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** out, std::size_t alignment, std::size_t size) {
  count();
  void* memory = __libc_memalign(alignment, size);
  if (memory == nullptr) return ENOMEM;
  *out = memory;
  return 0;
}

}  // extern "C"
#endif
