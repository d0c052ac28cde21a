#pragma once
// Runtime: far memory for the program that this library was loaded into.
//
// The dynamic linker loads libyonder_preload.so before everything else (`yonder run` sets
// LD_PRELOAD), so that its malloc, mmap, read … are those of the program. They ask here:
// is far memory ready, is this address of it, may this caller's memory be far?
//
// What must not be far: memory of the C library and of the dynamic linker (buffers that
// they hand to the kernel themselves, thread-local storage), and our own (the fault service
// would fault). Both are told by the caller's address; all else that a thread of ours
// allocates, by a flag of the thread.
//
// Configuration, from the environment:
//   YONDER_FAR_BYTES     how much far memory; without it the library does nothing
//   YONDER_LOCAL_BYTES   how much of the process may be resident
//   YONDER_NODE          where yonderd listens; without: memory of this machine
//   YONDER_PATIENCE_MS   how long a fault waits for a node that is away
//   YONDER_FAR_STATS     a file that gets a line of statistics when the process ends
//
// Concurrency: any thread. Lifetime: made before main(), never destroyed: the program may
// free until its last instruction.

#include <atomic>
#include <cstddef>

#include "yonder/heap/paged_arena.h"
#include "yonder/heap/paged_space.h"

namespace yonder::preload {

struct Runtime {
  std::unique_ptr<heap::PagedSpace> space;
  std::unique_ptr<heap::PagedArena> arena;
  pid_t process = 0;  // Whose far memory it is: children of fork() read it only.
};

namespace internal {
extern std::atomic<Runtime*> runtime_pointer;
}  // namespace internal

// Null before far memory is ready, and in a process that has none.
inline Runtime* runtime() { return internal::runtime_pointer.load(std::memory_order_acquire); }

inline bool is_far(const void* address) {
  const Runtime* far = runtime();
  return far != nullptr && far->space->contains(address);
}

// Whether this caller is the program, or a library of it: not we, not the C library.
bool is_program(const void* caller);
// Whether what this caller allocates may be far.
inline bool may_be_far(const void* caller) { return runtime() != nullptr && is_program(caller); }

// For its life, what this thread allocates is not far.
class InternalScope {
 public:
  InternalScope();
  ~InternalScope();
  InternalScope(const InternalScope&) = delete;
  InternalScope& operator=(const InternalScope&) = delete;

 private:
  bool before_;
};

}  // namespace yonder::preload
