#pragma once
// jemalloc, the yardstick of allocation, loaded beside the program's own malloc.
//
// The library keeps what it knows of a thread in static TLS. A program gets that at
// its start, with little to spare for libraries that come later; a statically linked
// one may have too little left. make_room_for_jemalloc() starts the program again
// with more.
//
// Concurrency: one thread. Lifetime: values; the library stays loaded.

#include <cstddef>

namespace yonder::bench {

struct Jemalloc {
  void* (*allocate)(std::size_t) = nullptr;
  void (*release)(void*) = nullptr;

  // False if the library is not there (Debian package libjemalloc2) or does not fit.
  static Jemalloc load();
  explicit operator bool() const { return allocate != nullptr && release != nullptr; }
};

// Call it before anything was done or printed: it may begin the program anew, with
// the same arguments, once.
void make_room_for_jemalloc();

}  // namespace yonder::bench
