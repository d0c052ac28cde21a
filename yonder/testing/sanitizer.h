#pragma once
// Whether this is a build under a sanitizer: five to fifteen times slower, so that
// long random tests do less there, and say how much less in one place.
//
// Concurrency and lifetime: constants.

namespace yonder::testing {

inline constexpr bool kSanitized =
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
    true;
#else
    false;
#endif
#else
    false;
#endif

// `count` of a usual build, a `share`-th of it (at least one) under a sanitizer.
template <typename T>
constexpr T scaled(T count, T share = 8) {
  if (!kSanitized) return count;
  return count < share ? T{1} : count / share;
}

}  // namespace yonder::testing
