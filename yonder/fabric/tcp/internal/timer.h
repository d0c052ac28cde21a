#pragma once
// When a timer is due that was not set. Concurrency, lifetime: a constant.

#include <cstdint>

#include "yonder/base/time.h"

namespace yonder::fabric::tcp {

inline constexpr Instant kNoTimer = Instant::from_ns(INT64_MAX);

}  // namespace yonder::fabric::tcp
