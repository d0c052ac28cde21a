// malloc and its family.
//
// What is not far comes from the C library's own allocator by its second names: the next
// malloc in line may be another replacement (redis has jemalloc), which maps memory
// through our mmap and so could become far itself.
#include "apps/preload/allocate.h"

#include <malloc.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>

#include "apps/preload/next.h"
#include "apps/preload/runtime.h"

extern "C" {
void* __libc_malloc(std::size_t bytes);                           // NOLINT: the C library's names.
void* __libc_calloc(std::size_t count, std::size_t bytes);        // NOLINT
void* __libc_realloc(void* object, std::size_t bytes);            // NOLINT
void* __libc_memalign(std::size_t alignment, std::size_t bytes);  // NOLINT
void __libc_free(void* object);                                   // NOLINT
}

namespace yonder::preload {
namespace {

constexpr std::size_t kPlain = 16;

void* or_no_memory(void* object) {
  if (object == nullptr) errno = ENOMEM;
  return object;
}

bool is_power_of_two(std::size_t n) { return n != 0 && (n & (n - 1)) == 0; }

std::size_t usable_bytes(void* object) {
  if (object == nullptr) return 0;
  if (is_far(object)) return runtime()->arena->usable_bytes(object);
  static const auto next_usable = next<decltype(&::malloc_usable_size)>("malloc_usable_size", "GLIBC_2.2.5");
  return next_usable(object);
}

void* resize(void* object, std::size_t bytes, const void* caller) {
  if (object == nullptr) return allocate_for(caller, bytes, kPlain);
  if (!is_far(object)) return __libc_realloc(object, bytes);
  if (bytes != 0) return or_no_memory(runtime()->arena->reallocate(object, bytes));
  release(object);
  return nullptr;
}

void* aligned(std::size_t alignment, std::size_t bytes, const void* caller) {
  if (is_power_of_two(alignment)) return allocate_for(caller, bytes, alignment);
  errno = EINVAL;
  return nullptr;
}

}  // namespace

void* allocate_for(const void* caller, std::size_t bytes, std::size_t alignment) {
  if (may_be_far(caller)) return or_no_memory(runtime()->arena->allocate(bytes, std::max(alignment, kPlain)));
  return alignment <= kPlain ? __libc_malloc(bytes) : __libc_memalign(alignment, bytes);
}

void release(void* object) {
  if (object == nullptr) return;
  if (!is_far(object)) return __libc_free(object);
  const int saved = errno;
  runtime()->arena->free(object);
  errno = saved;
}

}  // namespace yonder::preload

#define YONDER_CALLER __builtin_return_address(0)

using namespace yonder::preload;  // NOLINT: what follows is the C library's face.

YONDER_INTERPOSE void* malloc(std::size_t bytes) noexcept {
  return allocate_for(YONDER_CALLER, bytes, kPlain);
}
YONDER_INTERPOSE void free(void* object) noexcept { release(object); }
YONDER_INTERPOSE void cfree(void* object) noexcept { release(object); }

YONDER_INTERPOSE void* calloc(std::size_t count, std::size_t bytes) noexcept {
  if (!may_be_far(YONDER_CALLER)) return __libc_calloc(count, bytes);
  std::size_t total = 0;
  if (__builtin_mul_overflow(count, bytes, &total)) return or_no_memory(nullptr);
  return or_no_memory(runtime()->arena->allocate_zeroed(total));
}

YONDER_INTERPOSE void* realloc(void* object, std::size_t bytes) noexcept {
  return resize(object, bytes, YONDER_CALLER);
}

YONDER_INTERPOSE void* reallocarray(void* object, std::size_t count, std::size_t bytes) noexcept {
  std::size_t total = 0;
  if (__builtin_mul_overflow(count, bytes, &total)) return or_no_memory(nullptr);
  return resize(object, total, YONDER_CALLER);
}

YONDER_INTERPOSE int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) noexcept {
  if (alignment % sizeof(void*) != 0 || !is_power_of_two(alignment)) return EINVAL;
  const int saved = errno;
  void* object = aligned(alignment, bytes, YONDER_CALLER);
  errno = saved;
  if (object == nullptr) return ENOMEM;
  *out = object;
  return 0;
}

YONDER_INTERPOSE void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  return aligned(alignment, bytes, YONDER_CALLER);
}
YONDER_INTERPOSE void* memalign(std::size_t alignment, std::size_t bytes) noexcept {
  return aligned(alignment, bytes, YONDER_CALLER);
}
YONDER_INTERPOSE void* valloc(std::size_t bytes) noexcept {
  return aligned(yonder::os::kPageBytes, bytes, YONDER_CALLER);
}
YONDER_INTERPOSE void* pvalloc(std::size_t bytes) noexcept {
  return aligned(yonder::os::kPageBytes, yonder::os::round_up(bytes, yonder::os::kPageBytes), YONDER_CALLER);
}

YONDER_INTERPOSE std::size_t malloc_usable_size(void* object) noexcept { return usable_bytes(object); }
