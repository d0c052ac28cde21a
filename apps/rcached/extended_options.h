#pragma once
// The list behind -o: "name,name=value,…".
//
// Concurrency: a pure function.

#include <string>

#include "apps/rcached/settings.h"

namespace yonder::apps {

// What is wrong with `list`; empty if nothing.
std::string apply_extended(const std::string& list, CacheSettings& settings);

}  // namespace yonder::apps
