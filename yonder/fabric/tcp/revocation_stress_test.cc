// Clients that read and write while the target revokes and rebinds under them:
// nothing is read that was not granted, nothing is written after it was revoked.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/fabric/tcp/tcp.h"
#include "yonder/os/mapping.h"
#include "yonder/os/steady_clock.h"
#include "yonder/testing/seed.h"

namespace yonder::fabric::tcp {
namespace {

constexpr std::size_t kBytes = 512 * 1024;  // Several chunks.
constexpr std::byte kSecret{0xdd};          // What memory holds while it is not granted.
constexpr auto kRunTime = std::chrono::seconds(2);

const os::SteadyClock kClock;

class Revocation : public ::testing::Test {
 protected:
  Revocation()
      : fabric_(open().value()),
        listener_(fabric_->listen({.address = "tcp://127.0.0.1:0", .passive = true}).value()) {
    for (os::Mapping& memory : memory_) memory = os::Mapping::anonymous({.bytes = kBytes}).value();
    region_ = fabric_->register_memory({.memory = memory_[0].bytes(), .rights = Rights::kAll}).value();
    token_ = region_.token();
  }

  RegionToken token() {
    const std::lock_guard lock(mutex_);
    return token_;
  }

  void run_client(std::uint64_t seed);
  bool is_allowed(const Error& error) const {
    return error == ErrorCode::kUnknownKey || error == ErrorCode::kRegionRevoked;
  }

  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<Listener> listener_;
  os::Mapping memory_[2];
  Region region_;
  std::mutex mutex_;
  RegionToken token_;  // Guarded by mutex_.
  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> successes_{0};
  std::atomic<std::uint64_t> refusals_{0};
};

void Revocation::run_client(std::uint64_t seed) {
  Prng random(seed);
  auto fabric = open({.seed = seed}).value();
  auto queue = fabric->create_completion_queue({}).value();
  auto endpoint = fabric->connect({.address = listener_->address()}, *queue).value();
  std::vector<std::byte> buffer(kBytes);
  while (!stop_) {
    const std::size_t length = 1 + random.below(random.chance(0.3) ? kBytes : 256);
    const std::size_t offset = random.below(kBytes - length + 1);
    const LocalPiece piece = LocalPiece::of(std::span(buffer).first(length));
    const bool reads = random.chance(0.6);
    if (!reads) std::fill_n(buffer.begin(), length, static_cast<std::byte>(1 + random.below(8)));
    const auto done = reads ? endpoint->read(piece, token().at(offset)).wait()
                            : endpoint->write(piece, token().at(offset)).wait();
    if (done) {
      ++successes_;
      const auto end = buffer.begin() + static_cast<std::ptrdiff_t>(length);
      if (reads) {
        EXPECT_EQ(std::find(buffer.begin(), end, kSecret), end);
      }
    } else {
      ++refusals_;
      EXPECT_TRUE(is_allowed(done.error())) << done.error();
    }
  }
}

TEST_F(Revocation, NothingIsTouchedOnceItReturned) {
  Prng random(::yonder::testing::test_seed());
  std::vector<std::thread> clients;
  for (int i = 0; i < 3; ++i) clients.emplace_back([this, seed = random()] { run_client(seed); });
  std::size_t current = 0;
  const Deadline end = Deadline::after(kClock, kRunTime);
  while (!end.passed(kClock.now())) {
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(3000)));
    std::span<std::byte> old = memory_[current].bytes();
    std::span<std::byte> fresh = memory_[1 - current].bytes();
    std::ranges::fill(fresh, std::byte{0});
    if (random.chance(0.5)) {
      ASSERT_TRUE(region_.rebind(fresh));
    } else {
      region_.revoke();
      region_ = fabric_->register_memory({.memory = fresh, .rights = Rights::kAll}).value();
      const std::lock_guard lock(mutex_);
      token_ = region_.token();
    }
    current = 1 - current;
    // The old memory is ours alone now: what we put there must stay, unseen.
    std::ranges::fill(old, kSecret);
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(500)));
    ASSERT_EQ(std::count(old.begin(), old.end(), kSecret), std::ssize(old));
  }
  stop_ = true;
  for (std::thread& client : clients) client.join();
  EXPECT_GT(successes_, 0u);
}

}  // namespace
}  // namespace yonder::fabric::tcp
