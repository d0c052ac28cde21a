#pragma once
// For tests that need a real RDMA device: the program says in one line that it
// has none and ends with 77, which ctest counts as skipped.
//
// Concurrency: one thread.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "yonder/fabric/fabric.h"
#include "yonder/fabric/verbs/verbs.h"

namespace yonder::fabric::verbs {

// Put one into the program: it runs before any test.
struct RequireDevice {
  RequireDevice() {
    const auto fabric = open();
    if (fabric || fabric.error() != ErrorCode::kProviderUnavailable) return;
    std::printf("skipped: %s\n", fabric.error().to_string().c_str());
    std::fflush(stdout);
    std::_Exit(77);
  }
};

// "10.77.0.1": where the fabric's device listens.
inline std::string device_ip(Fabric& fabric) {
  const auto listener = fabric.listen({.address = "verbs://*:0", .passive = true});
  if (!listener) {
    ADD_FAILURE() << listener.error();
    return "127.0.0.1";
  }
  const std::string address = (*listener)->address();
  const std::size_t start = std::string("verbs://").size();
  return address.substr(start, address.rfind(':') - start);
}

}  // namespace yonder::fabric::verbs
