// Executors with a thread each, on shared memory, rings that are full most of the time:
// everything arrives once and in order. Also for ThreadSanitizer.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/fabric/testbed/shm_place.h"
#include "yonder/structures/shuffle_receiver.h"
#include "yonder/structures/shuffle_sender.h"
#include "yonder/testing/effort.h"
#include "yonder/testing/sanitizer.h"
#include "yonder/testing/seed.h"

namespace yonder::structures {
namespace {

using namespace std::chrono_literals;
using fabric::Task;

constexpr std::uint32_t kExecutors = 3;

// What an entry says of itself: who sent it, and the how-manieth of his for this
// receiver it is.
struct Stamp {
  std::uint64_t key;
  std::uint32_t sender;
  std::uint32_t number;
};

// One executor: it sends and receives, as two tasks of one thread.
struct Executor {
  std::unique_ptr<fabric::Fabric> fabric = fabric::shm::open({}).value();
  std::unique_ptr<fabric::CompletionQueue> queue = fabric->create_completion_queue({}).value();
  fabric::Scheduler scheduler{*queue};
  std::unique_ptr<ShuffleReceiver> receiver;
  std::unique_ptr<ShuffleSender> sender;
  std::vector<std::uint32_t> sent = std::vector<std::uint32_t>(kExecutors);   // to each
  std::vector<std::uint32_t> taken = std::vector<std::uint32_t>(kExecutors);  // of each, in order
  std::uint64_t wrong = 0;
  Result<void> sending;
  Result<void> taking;
};

Task<void> send(Executor& self, std::uint32_t index, std::uint64_t count, std::uint64_t seed,
                Deadline deadline) {
  Prng random(seed);
  for (std::uint64_t i = 0; i < count; ++i) {
    Stamp stamp{.key = random(), .sender = index, .number = 0};
    const auto key = std::as_bytes(std::span(&stamp.key, 1));
    stamp.number = self.sent[hash_partition(key, kExecutors)]++;
    const auto value = std::as_bytes(std::span(&stamp, 1)).subspan(8);
    self.sending = co_await self.sender->async_add({.key = key, .value = value}, deadline);
    if (!self.sending) co_return;
  }
  self.sending = co_await self.sender->async_finish(deadline);
}

Task<void> take(Executor& self, Deadline deadline) {
  for (;;) {
    Result<ShuffleBatch> batch = co_await self.receiver->async_next(deadline);
    if (!batch) {
      self.taking = std::unexpected(batch.error());
      co_return;
    }
    if (batch->is_end()) break;
    for (const ShuffleEntry entry : *batch) {
      Stamp stamp{};
      std::memcpy(&stamp.key, entry.key.data(), 8);
      std::memcpy(&stamp.sender, entry.value.data(), 8);
      if (stamp.sender != batch->sender() || stamp.number != self.taken[stamp.sender]++) ++self.wrong;
    }
  }
  self.taking = co_await self.receiver->async_finish(deadline);
}

void exchange(ShuffleStrategy strategy) {
  const std::uint64_t count = testing::scaled<std::uint64_t>(100'000) * testing::test_effort();
  const std::uint64_t seed = testing::test_seed();
  std::vector<Executor> executors(kExecutors);
  fabric::testbed::ShmPlace names("");
  std::vector<std::string> addresses;
  for (std::uint32_t i = 0; i < kExecutors; ++i) {
    Executor& self = executors[i];
    self.receiver =
        ShuffleReceiver::create(
            *self.fabric, *self.queue, self.scheduler,
            {.address = names.listen_address(), .senders = kExecutors, .index = i, .ring_bytes = 4096})
            .value();
    addresses.push_back(self.receiver->address());
  }
  for (std::uint32_t i = 0; i < kExecutors; ++i) {
    Executor& self = executors[i];
    self.sender =
        ShuffleSender::connect(
            *self.fabric, *self.queue, self.scheduler,
            {.receivers = addresses, .senders = kExecutors, .index = i, .strategy = strategy, .timeout = 60s})
            .value();
  }
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < kExecutors; ++i) {
    threads.emplace_back([&self = executors[i], i, count, seed] {
      const Deadline deadline = Deadline::after(self.queue->clock(), 100s);
      self.scheduler.spawn(send(self, i, count, seed + i, deadline));
      self.scheduler.spawn(take(self, deadline));
      EXPECT_TRUE(self.scheduler.run(deadline));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::uint32_t i = 0; i < kExecutors; ++i) {
    EXPECT_TRUE(executors[i].sending) << executors[i].sending.error();
    EXPECT_TRUE(executors[i].taking) << executors[i].taking.error();
    EXPECT_EQ(executors[i].wrong, 0u);
    for (std::uint32_t j = 0; j < kExecutors; ++j) EXPECT_EQ(executors[i].taken[j], executors[j].sent[i]);
  }
  for (Executor& self : executors) self.sender.reset();
  for (Executor& self : executors) self.receiver.reset();
}

TEST(ShuffleStress, PackedEntriesOfManyThreadsArriveOnceAndInOrder) { exchange(ShuffleStrategy::kPack); }
TEST(ShuffleStress, SingleEntriesOfManyThreadsArriveOnceAndInOrder) { exchange(ShuffleStrategy::kBasic); }

}  // namespace
}  // namespace yonder::structures
