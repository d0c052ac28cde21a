#include "yonder/client/internal/scratch.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "yonder/os/steady_clock.h"

namespace yonder::client::internal {
namespace {

constexpr std::size_t kSmall = 1000;
constexpr std::size_t kLarge = 100'000;
constexpr fabric::LocalKey kKey{42};

class FakeRegion final : public fabric::RegionImpl {
 public:
  FakeRegion(std::span<std::byte> memory, int& live) : memory_(memory), live_(live) { ++live_; }
  ~FakeRegion() override { --live_; }
  fabric::RegionToken token() const override { return {}; }
  fabric::LocalKey local_key() const override { return kKey; }
  std::span<std::byte> memory() const override { return memory_; }
  Result<void> rebind(std::span<std::byte>, std::optional<fabric::Backing>) override { return {}; }
  Result<void> prefetch(std::uint64_t, std::uint64_t) override { return {}; }
  void revoke() override {}

 private:
  const std::span<std::byte> memory_;
  int& live_;
};

// A NIC that registers memory, or refuses to.
class FakeFabric final : public fabric::Fabric {
 public:
  explicit FakeFabric(bool copies) { capabilities_.copies_unregistered = copies; }
  const fabric::Capabilities& capabilities() const override { return capabilities_; }
  const Clock& clock() const override { return clock_; }
  Result<fabric::Region> register_memory(const fabric::RegisterOptions& options) override {
    if (refuses) return fail(ErrorCode::kResourceExhausted, "register");
    return fabric::Region(std::make_unique<FakeRegion>(options.memory, live));
  }
  Result<std::unique_ptr<fabric::CompletionQueue>> create_completion_queue(
      const fabric::CompletionQueueOptions&) override {
    return fail(ErrorCode::kUnsupported, "fake");
  }
  Result<std::unique_ptr<fabric::ReceiveQueue>> create_receive_queue(
      const fabric::ReceiveQueueOptions&) override {
    return fail(ErrorCode::kUnsupported, "fake");
  }
  Result<std::unique_ptr<fabric::Listener>> listen(const fabric::ListenOptions&) override {
    return fail(ErrorCode::kUnsupported, "fake");
  }
  Result<std::unique_ptr<fabric::Endpoint>> connect(const fabric::ConnectOptions&,
                                                    fabric::CompletionQueue&) override {
    return fail(ErrorCode::kUnsupported, "fake");
  }
  void raise_epoch(Epoch) override {}

  bool refuses = false;
  int live = 0;  // Regions.

 private:
  fabric::Capabilities capabilities_;
  os::SteadyClock clock_;
};

TEST(ScratchPool, LendsRegisteredMemoryWhereANicWantsIt) {
  FakeFabric nic(/*copies=*/true);
  {
    ScratchPool pool;
    pool.register_some(nic);
    EXPECT_EQ(nic.live, 1);
    const Scratch scratch = pool.take(kSmall);
    EXPECT_EQ(scratch.piece().key, kKey);
    EXPECT_EQ(scratch.piece().data, scratch.bytes().data());
    EXPECT_EQ(scratch.bytes().size(), kSmall);
    EXPECT_EQ(pool.take(kLarge).piece().key, fabric::kUnregistered);
  }
  EXPECT_EQ(nic.live, 0);
}

TEST(ScratchPool, DoesNotRegisterWhereNothingIsGained) {
  FakeFabric memory(/*copies=*/false);
  ScratchPool pool;
  pool.register_some(memory);
  EXPECT_EQ(memory.live, 0);
  EXPECT_EQ(pool.take(kSmall).piece().key, fabric::kUnregistered);
}

TEST(ScratchPool, DoesWithoutWhatItCannotRegister) {
  FakeFabric nic(/*copies=*/true);
  nic.refuses = true;
  ScratchPool pool;
  pool.register_some(nic);
  EXPECT_EQ(pool.take(kSmall).piece().key, fabric::kUnregistered);
}

TEST(ScratchPool, LendsEachBufferOnceAndAgainWhenItIsBack) {
  FakeFabric nic(/*copies=*/true);
  ScratchPool pool;
  pool.register_some(nic);
  for (int round = 0; round < 3; ++round) {
    std::vector<Scratch> taken;
    std::size_t registered = 0;
    for (int i = 0; i < 100; ++i) {
      taken.push_back(pool.take(kSmall));
      std::ranges::fill(taken.back().bytes(), static_cast<std::byte>(i));
      registered += taken.back().piece().key == kKey;
    }
    EXPECT_EQ(registered, 16u);
    for (int i = 0; i < 100; ++i) {
      const auto bytes = taken[static_cast<std::size_t>(i)].bytes();
      EXPECT_TRUE(std::ranges::all_of(bytes, [i](std::byte byte) { return byte == std::byte(i); }));
    }
  }
}

}  // namespace
}  // namespace yonder::client::internal
