#pragma once
// The bed of the migration suite: actors, and the directory that they ask. The provider
// is the parameter, as an address to listen at.
//
// Concurrency: the test's thread. Lifetime: one test.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "yonder/fabric/fabric.h"
#include "yonder/os/steady_clock.h"
#include "yonder/rpc/server.h"
#include "yonder/segment/local_directory.h"
#include "yonder/segment/suite/actor.h"

namespace yonder::segment::suite {

// Polls until `condition` or 20 s.
template <typename Condition>
bool eventually(Condition condition) {
  const Instant end = os::SteadyClock::read() + std::chrono::seconds(20);
  while (!condition()) {
    if (os::SteadyClock::read() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

class Migrations : public ::testing::TestWithParam<std::string> {
 protected:
  // The actors are forked first, while this process has no threads.
  void open(int actors, ActorOptions options = {}, Duration lease = std::chrono::seconds(10));
  void TearDown() override;

  Actor& actor(std::size_t i) { return *actors_[i]; }
  // Actor 0 allocates a segment and connects it to actor 1.
  std::uint64_t offer(std::uint64_t bytes, std::uint64_t seed, std::uint64_t early = 0);
  std::uint64_t offer_kept(std::uint64_t bytes, std::uint64_t seed);
  // Actor 0 dies while actor 1 pulls; actor 2 has a copy.
  void lose_the_source_of_a_kept_segment();
  // Registering memory with a NIC allocates all of it.
  static bool leaves_holes() { return !GetParam().starts_with("verbs"); }
  SegmentRecord record(std::uint64_t id) { return directory_->find(SegmentId(id), {}).value(); }

 private:
  const os::SteadyClock clock_;
  std::vector<std::unique_ptr<Actor>> actors_;
  std::unique_ptr<fabric::Fabric> fabric_;
  std::unique_ptr<LocalDirectory> directory_;
  std::unique_ptr<rpc::Server> server_;
};

}  // namespace yonder::segment::suite
