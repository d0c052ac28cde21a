#pragma once
// What malloc and operator new have in common.
//
// Concurrency: any thread.

#include <cstddef>

namespace yonder::preload {

// Far if the caller's memory may be, else the C library's. Null, and ENOMEM: no room.
void* allocate_for(const void* caller, std::size_t bytes, std::size_t alignment);
// Either kind; null is nothing.
void release(void* object);

}  // namespace yonder::preload
