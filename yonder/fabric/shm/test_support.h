#pragma once
// What the tests of this folder share: fabrics, memory, connected pairs.
//
// Concurrency: one thread. Lifetime: the usual one of the fabric: members are
// destroyed in the order that fabric.h asks for.

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "yonder/base/check.h"
#include "yonder/fabric/fabric.h"
#include "yonder/fabric/shm/shm.h"
#include "yonder/os/mapping.h"
#include "yonder/os/memfd.h"
#include "yonder/os/steady_clock.h"

namespace yonder::fabric::shm {

template <typename T>
T must(Result<T> result, const char* what = "set-up of a test") {
  if (!result) {
    ADD_FAILURE() << what << ": " << result.error();
    check_failed("result", __FILE__, __LINE__, what);
  }
  return std::move(*result);
}

inline Deadline within(Duration duration = std::chrono::seconds(20)) {
  return Deadline::at(os::SteadyClock::read() + duration);
}

// A whole memfd, mapped: memory that peers can reach directly.
struct SharedMemory {
  os::Memfd file;
  os::Mapping mapping;

  static SharedMemory create(std::size_t bytes) {
    auto file = must(os::Memfd::create({.name = "shm-test", .size = bytes}));
    auto mapping = must(
        os::Mapping::of_file(file.fd(), {.bytes = file.size(), .protection = os::Protection::kReadWrite}));
    return {std::move(file), std::move(mapping)};
  }
  std::span<std::byte> bytes() const { return mapping.bytes(); }
  Backing backing() const { return {.fd = file.fd().get()}; }
};

// An initiator connected to a passive listener of its own target fabric.
struct PassivePair {
  std::unique_ptr<Fabric> target;
  std::unique_ptr<Fabric> initiator;
  std::unique_ptr<Listener> listener;
  std::unique_ptr<CompletionQueue> queue;
  std::unique_ptr<Endpoint> endpoint;

  static PassivePair create(const std::string& options) {
    PassivePair pair;
    pair.target = must(open({}));
    pair.initiator = must(open({}));
    pair.listener = must(pair.target->listen({.address = "shm:" + options, .passive = true}));
    pair.queue = must(pair.initiator->create_completion_queue({}));
    pair.endpoint = must(pair.initiator->connect({.address = pair.listener->address()}, *pair.queue));
    return pair;
  }
};

// Polls `condition` until it holds or ten seconds have passed.
template <typename Condition>
bool eventually(Condition condition) {
  const Deadline deadline = within(std::chrono::seconds(10));
  while (!condition()) {
    if (deadline.passed(os::SteadyClock::read())) return false;
    ::usleep(500);
  }
  return true;
}

}  // namespace yonder::fabric::shm
