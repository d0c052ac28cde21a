#pragma once
// Tells ThreadSanitizer what it cannot see: that a message in shared memory
// orders the two threads at its ends.
//
// In tests both ends are threads of one process, but each has its own mapping of
// the link file: the release and the acquire are on different addresses, and the
// sanitizer would take everything that a message hands over for a race. So in its
// builds, and only there, each publication and each consumption also touch one of
// a few dummy objects, chosen by the number of the connection.
//
// Concurrency: any thread.

#include <cstdint>

#include "yonder/sync/shared_copy.h"

#ifdef YONDER_SHARED_COPY_HIDDEN
extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}
#endif

namespace yonder::fabric::shm {

#ifdef YONDER_SHARED_COPY_HIDDEN
inline void* handoff_object(std::uint64_t connection) {
  static char objects[1024];
  return &objects[connection % sizeof objects];
}
inline void handoff_publish(std::uint64_t connection) { __tsan_release(handoff_object(connection)); }
inline void handoff_consume(std::uint64_t connection) { __tsan_acquire(handoff_object(connection)); }
#else
inline void handoff_publish(std::uint64_t) {}
inline void handoff_consume(std::uint64_t) {}
#endif

}  // namespace yonder::fabric::shm
