#pragma once
// Which lock protects which field, in a form that clang checks.
//
// With clang and -Wthread-safety a field marked YONDER_GUARDED_BY(mutex_) can be
// touched only where the compiler sees mutex_ held; g++ ignores the marks. Used
// with Mutex and LockGuard of sync/mutex.h.
//
// Concurrency and lifetime: macros only.

#if defined(__clang__)
#define YONDER_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define YONDER_THREAD_ATTRIBUTE(x)
#endif

// On a class: it is a lock / it holds a lock for as long as it lives.
#define YONDER_CAPABILITY(name) YONDER_THREAD_ATTRIBUTE(capability(name))
#define YONDER_SCOPED_CAPABILITY YONDER_THREAD_ATTRIBUTE(scoped_lockable)

// On a field: the lock must be held to touch it / what it points to.
#define YONDER_GUARDED_BY(lock) YONDER_THREAD_ATTRIBUTE(guarded_by(lock))
#define YONDER_PT_GUARDED_BY(lock) YONDER_THREAD_ATTRIBUTE(pt_guarded_by(lock))

// On a function: the caller must hold / must not hold the lock; it takes / gives it back.
#define YONDER_REQUIRES(...) YONDER_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define YONDER_EXCLUDES(...) YONDER_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define YONDER_ACQUIRE(...) YONDER_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define YONDER_TRY_ACQUIRE(...) YONDER_THREAD_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
#define YONDER_RELEASE(...) YONDER_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define YONDER_RETURN_CAPABILITY(lock) YONDER_THREAD_ATTRIBUTE(lock_returned(lock))

// On a function whose locking the analysis cannot follow; say why beside it.
#define YONDER_NO_THREAD_SAFETY_ANALYSIS YONDER_THREAD_ATTRIBUTE(no_thread_safety_analysis)
