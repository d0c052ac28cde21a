#pragma once
// The provider a suite runs on: its name, and how its two sides are made. The parameter of
// suites whose tests are instantiated once per provider.
//
// Concurrency and lifetime: a value.

#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>

#include "yonder/fabric/testbed/place.h"

namespace yonder::fabric::testbed {

struct Provider {
  const char* name;
  std::unique_ptr<Place> (*make)();
};

inline std::string provider_name(const ::testing::TestParamInfo<Provider>& info) { return info.param.name; }
inline void PrintTo(const Provider& provider, std::ostream* out) { *out << provider.name; }

}  // namespace yonder::fabric::testbed
