#pragma once
// Ticks: a clock cheap enough to be read twice in every object read.
//
// It exists for one question: did this copy take less than kVersionWrapBound, so
// that the version cannot have gone full circle? On x86 the time-stamp counter
// answers in a few nanoseconds that overlap with the cache miss they surround. Its
// rate is not asked for: no counter runs slower than 1 GHz, so a copy of fewer
// than 10 million ticks took at most 10 ms.
//
// The processor may run the reading early, but a thread that loses its core
// between the two readings repeats the second one afterwards, and a copy of at
// most kMaxOptimisticBytes takes longer than the bound for no other reason.
//
// Concurrency: any thread; differences are meant for one thread.

#include <cstdint>

#include "yonder/node/header_word.h"
#include "yonder/os/steady_clock.h"

namespace yonder::node {

inline std::uint64_t ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return static_cast<std::uint64_t>(os::SteadyClock::read().ns());
#endif
}

inline constexpr std::uint64_t kMaxCopyTicks = kVersionWrapBound.count();  // At 1 GHz.
// Larger objects are locked for reading: their copy may take longer than the bound.
inline constexpr std::size_t kMaxOptimisticBytes = std::size_t{1} << 20;

}  // namespace yonder::node
