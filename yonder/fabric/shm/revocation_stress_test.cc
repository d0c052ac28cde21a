// Readers and writers hammer a region while its owner takes it away, poisons the
// memory, and gives it back: nobody may see poison, and nothing may be written.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>

#include "yonder/fabric/shm/test_support.h"
#include "yonder/sync/shared_copy.h"

namespace yonder::fabric::shm {
namespace {

constexpr std::size_t kBytes = 4096;
constexpr std::size_t kReadBytes = 512;
constexpr std::byte kPoison{0xdd};
constexpr Duration kDuration = std::chrono::milliseconds(700);

struct Variant {
  const char* name;
  const char* options;
  bool shared;  // a memfd: direct for foreign peers
};

// Fills as another process would see it: not by instructions the sanitizer sees,
// because the reader may look at the same time.
void fill(std::span<std::byte> memory, std::byte value) {
  const std::vector<std::byte> bytes(memory.size(), value);
  sync::shared_copy(memory.data(), bytes.data(), bytes.size());
}

class Memory {
 public:
  explicit Memory(bool shared) : file_(SharedMemory::create(kBytes)), shared_(shared) {}
  std::span<std::byte> bytes() const { return file_.bytes(); }
  std::optional<Backing> backing() const {
    return shared_ ? std::optional<Backing>(file_.backing()) : std::nullopt;
  }

 private:
  SharedMemory file_;
  bool shared_;
};

class Revocation : public ::testing::TestWithParam<Variant> {
 protected:
  struct Client {
    std::unique_ptr<CompletionQueue> queue;
    std::unique_ptr<Endpoint> endpoint;
  };
  Revocation() : target_(must(open({}))), initiator_(must(open({}))) {
    listener_ = must(target_->listen({.address = std::string("shm:") + GetParam().options, .passive = true}));
  }
  Client connect() {
    Client client{must(initiator_->create_completion_queue({})), nullptr};
    client.endpoint = must(initiator_->connect({.address = listener_->address()}, *client.queue));
    return client;
  }
  Region register_memory(const Memory& memory) {
    return must(target_->register_memory(
        {.memory = memory.bytes(), .rights = Rights::kAll, .backing = memory.backing()}));
  }
  void publish(RegionToken token) {
    const std::lock_guard lock(mutex_);
    token_ = token;
  }
  RegionToken token() {
    const std::lock_guard lock(mutex_);
    return token_;
  }
  // Reads until told to stop; counts what it may not have seen.
  void read_loop() {
    Client client = connect();
    std::vector<std::byte> buffer(kReadBytes);
    std::uint64_t offset = 0;
    while (!stop_) {
      offset = (offset + 520) % (kBytes - kReadBytes);
      const auto done =
          client.endpoint->read(LocalPiece::of(std::span(buffer)), token().at(offset), within()).wait();
      if (!done) {
        const ErrorCode code = done.error().code();
        if (code != ErrorCode::kRegionRevoked && code != ErrorCode::kUnknownKey) ++wrong_errors_;
        continue;
      }
      ++reads_;
      const std::byte first = buffer.front();
      if (first == kPoison) ++poisoned_;
      if (!std::ranges::all_of(buffer, [first](std::byte b) { return b == first; })) ++mixed_;
    }
  }
  void write_loop() {
    Client client = connect();
    const std::vector<std::byte> buffer(kReadBytes, std::byte{0x11});
    while (!stop_)
      (void)client.endpoint->write(LocalPiece::of(std::span(buffer)), token().at(1024), within()).wait();
  }

  std::unique_ptr<Fabric> target_;
  std::unique_ptr<Fabric> initiator_;
  std::unique_ptr<Listener> listener_;
  std::mutex mutex_;
  RegionToken token_;
  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> reads_{0};
  std::atomic<std::uint64_t> poisoned_{0};
  std::atomic<std::uint64_t> mixed_{0};
  std::atomic<std::uint64_t> wrong_errors_{0};
};

TEST_P(Revocation, NobodyReadsWhatWasTakenBack) {
  const Memory memory(GetParam().shared);
  fill(memory.bytes(), std::byte{1});
  Region region = register_memory(memory);
  publish(region.token());
  std::jthread readers[] = {std::jthread([this] { read_loop(); }), std::jthread([this] { read_loop(); })};
  const Deadline end = within(kDuration);
  for (std::uint8_t round = 2; !end.passed(os::SteadyClock::read());
       round = static_cast<std::uint8_t>(round % 100 + 2)) {
    region.revoke();
    fill(memory.bytes(), kPoison);
    std::this_thread::yield();
    fill(memory.bytes(), std::byte{round});
    region = register_memory(memory);
    publish(region.token());
    const std::uint64_t before = reads_;
    eventually([&] { return reads_ > before; });
  }
  stop_ = true;
  for (std::jthread& reader : readers) reader.join();
  EXPECT_EQ(poisoned_, 0u);
  EXPECT_EQ(mixed_, 0u);
  EXPECT_EQ(wrong_errors_, 0u);
  EXPECT_GT(reads_, 0u);
}

TEST_P(Revocation, ARebindIsSeenWholeOrNotAtAll) {
  const Memory memories[] = {Memory(GetParam().shared), Memory(GetParam().shared)};
  fill(memories[0].bytes(), std::byte{1});
  Region region = register_memory(memories[0]);
  publish(region.token());
  std::jthread readers[] = {std::jthread([this] { read_loop(); }), std::jthread([this] { read_loop(); })};
  const Deadline end = within(kDuration);
  for (unsigned round = 1; !end.passed(os::SteadyClock::read()); ++round) {
    const Memory& next = memories[round % 2];
    fill(next.bytes(), static_cast<std::byte>(round % 200 + 1));
    ASSERT_TRUE(region.rebind(next.bytes(), next.backing()));
    fill(memories[(round + 1) % 2].bytes(), kPoison);
    const std::uint64_t before = reads_;
    eventually([&] { return reads_ > before; });
  }
  stop_ = true;
  for (std::jthread& reader : readers) reader.join();
  EXPECT_EQ(poisoned_, 0u);
  EXPECT_EQ(mixed_, 0u);
  EXPECT_EQ(wrong_errors_, 0u);
}

TEST_P(Revocation, NobodyWritesWhatWasTakenBack) {
  const Memory memory(GetParam().shared);
  Region region = register_memory(memory);
  publish(region.token());
  std::jthread writer([this] { write_loop(); });
  const Deadline end = within(kDuration);
  const std::vector<std::byte> poison(kBytes, kPoison);
  std::vector<std::byte> seen(kBytes);
  int spoilt = 0;
  while (!end.passed(os::SteadyClock::read())) {
    region.revoke();
    fill(memory.bytes(), kPoison);
    std::this_thread::yield();
    sync::shared_copy(seen.data(), memory.bytes().data(), kBytes);
    spoilt += seen != poison;
    region = register_memory(memory);
    publish(region.token());
    eventually([&] {
      sync::shared_copy(seen.data(), memory.bytes().data(), kBytes);
      return seen != poison;
    });
  }
  stop_ = true;
  writer.join();
  EXPECT_EQ(spoilt, 0);
}

INSTANTIATE_TEST_SUITE_P(Shm, Revocation,
                         ::testing::Values(Variant{"InProcess", "", true},
                                           Variant{"ForeignDirect", "?inprocess=off", true},
                                           Variant{"ForeignServed", "?inprocess=off", false}),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace yonder::fabric::shm
