#pragma once
// UncheckedReads: for its life, ThreadSanitizer does not look at this thread's reads.
//
// The sweeper reads the program's memory without the program's knowing. What orders the
// two is write-protection and page faults, which a sanitizer cannot see.
//
// Concurrency: one thread. Lifetime: on the stack.

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define YONDER_HAS_TSAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define YONDER_HAS_TSAN 1
#endif

#if defined(YONDER_HAS_TSAN)
extern "C" void AnnotateIgnoreReadsBegin(const char* file, int line);  // NOLINT: the sanitizer's name.
extern "C" void AnnotateIgnoreReadsEnd(const char* file, int line);    // NOLINT: the sanitizer's name.
#endif

namespace yonder::heap::internal {

class UncheckedReads {
 public:
#if defined(YONDER_HAS_TSAN)
  UncheckedReads() { AnnotateIgnoreReadsBegin(__FILE__, __LINE__); }
  ~UncheckedReads() { AnnotateIgnoreReadsEnd(__FILE__, __LINE__); }
#else
  UncheckedReads() {}   // NOLINT(modernize-use-equals-default): else an unused variable.
  ~UncheckedReads() {}  // NOLINT(modernize-use-equals-default)
#endif
  UncheckedReads(const UncheckedReads&) = delete;
  UncheckedReads& operator=(const UncheckedReads&) = delete;
};

}  // namespace yonder::heap::internal
