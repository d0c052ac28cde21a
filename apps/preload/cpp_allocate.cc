// operator new and delete.
//
// They are ours and not those of a C++ library: allocators that replace malloc bring their
// own (jemalloc does), and an object that one library made there and another freed here
// would end the process.
#include <malloc.h>

#include <cstdlib>
#include <new>

#include "apps/preload/allocate.h"
#include "apps/preload/next.h"

using yonder::preload::allocate_for;
using yonder::preload::release;

#define YONDER_CALLER __builtin_return_address(0)
#define YONDER_NEW __attribute__((visibility("default")))

namespace {

constexpr std::size_t kPlain = 16;

void* or_throw(void* object) {
  if (object == nullptr) throw std::bad_alloc();
  return object;
}
std::size_t value(std::align_val_t alignment) { return static_cast<std::size_t>(alignment); }

}  // namespace

YONDER_NEW void* operator new(std::size_t bytes) {
  return or_throw(allocate_for(YONDER_CALLER, bytes, kPlain));
}
YONDER_NEW void* operator new[](std::size_t bytes) {
  return or_throw(allocate_for(YONDER_CALLER, bytes, kPlain));
}
YONDER_NEW void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return or_throw(allocate_for(YONDER_CALLER, bytes, value(alignment)));
}
YONDER_NEW void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return or_throw(allocate_for(YONDER_CALLER, bytes, value(alignment)));
}
YONDER_NEW void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate_for(YONDER_CALLER, bytes, kPlain);
}
YONDER_NEW void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate_for(YONDER_CALLER, bytes, kPlain);
}
YONDER_NEW void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocate_for(YONDER_CALLER, bytes, value(alignment));
}
YONDER_NEW void* operator new[](std::size_t bytes, std::align_val_t alignment,
                                const std::nothrow_t&) noexcept {
  return allocate_for(YONDER_CALLER, bytes, value(alignment));
}

YONDER_NEW void operator delete(void* object) noexcept { release(object); }
YONDER_NEW void operator delete[](void* object) noexcept { release(object); }
YONDER_NEW void operator delete(void* object, std::size_t) noexcept { release(object); }
YONDER_NEW void operator delete[](void* object, std::size_t) noexcept { release(object); }
YONDER_NEW void operator delete(void* object, std::align_val_t) noexcept { release(object); }
YONDER_NEW void operator delete[](void* object, std::align_val_t) noexcept { release(object); }
YONDER_NEW void operator delete(void* object, std::size_t, std::align_val_t) noexcept { release(object); }
YONDER_NEW void operator delete[](void* object, std::size_t, std::align_val_t) noexcept { release(object); }
YONDER_NEW void operator delete(void* object, const std::nothrow_t&) noexcept { release(object); }
YONDER_NEW void operator delete[](void* object, const std::nothrow_t&) noexcept { release(object); }
YONDER_NEW void operator delete(void* object, std::align_val_t, const std::nothrow_t&) noexcept {
  release(object);
}
YONDER_NEW void operator delete[](void* object, std::align_val_t, const std::nothrow_t&) noexcept {
  release(object);
}
