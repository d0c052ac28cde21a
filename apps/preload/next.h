#pragma once
// The functions that ours stand before.
//
//   static const auto next_read = next<decltype(&::read)>("read");
//
// Concurrency: any thread.

#include <dlfcn.h>

#include "yonder/base/check.h"

namespace yonder::preload {

template <typename Function>
Function next(const char* name) {
  auto found = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
  YONDER_CHECK(found != nullptr, "the C library has the function that we stand before");
  return found;
}

// The same in a version: dlsym() may find an older one of a different shape.
template <typename Function>
Function next(const char* name, const char* version) {
  auto found = reinterpret_cast<Function>(::dlvsym(RTLD_NEXT, name, version));
  return found != nullptr ? found : next<Function>(name);
}

}  // namespace yonder::preload

// Visible to the dynamic linker; everything else of this library is hidden.
#define YONDER_INTERPOSE extern "C" __attribute__((visibility("default")))
