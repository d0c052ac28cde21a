#include "bench/shuffle/real_shuffle.h"

#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/lent/thread_place.h"
#include "yonder/base/prng.h"
#include "yonder/fabric/scheduler.h"
#include "yonder/structures/shuffle_receiver.h"
#include "yonder/structures/shuffle_sender.h"

namespace yonder::bench {
namespace {

using fabric::Task;
using structures::ShuffleBatch;
using structures::ShuffleReceiver;
using structures::ShuffleSender;

constexpr Duration kPatience = std::chrono::seconds(120);

struct Executor : ThreadPlace {
  std::unique_ptr<ShuffleReceiver> receiver;
  std::unique_ptr<ShuffleSender> sender;
  std::vector<std::byte> memory;
  std::uint64_t taken = 0;
  Result<void> sending;
  Result<void> taking;
};

Task<void> send(Executor& self, const RealShuffleOptions& options, Deadline deadline) {
  const std::span<const std::byte> memory(self.memory);
  for (std::uint64_t i = 0; i < options.entries; ++i) {
    const auto entry = memory.subspan(i * options.entry_bytes, options.entry_bytes);
    const structures::ShuffleEntry added{.key = entry.first(8), .value = entry.subspan(8)};
    self.sending = self.sender->try_add(added);
    if (!self.sending && self.sending.error() == ErrorCode::kQueueFull)
      self.sending = co_await self.sender->async_add(added, deadline);
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
    self.taken += batch->size();
  }
  self.taking = co_await self.receiver->async_finish(deadline);
}

Result<void> make_executors(std::vector<Executor>& executors, const RealShuffleOptions& options) {
  std::vector<std::string> addresses;
  for (std::uint32_t i = 0; i < options.executors; ++i) {
    Executor& self = executors[i];
    YONDER_TRY_VOID(self.open(options.provider));
    self.memory.resize(options.entries * options.entry_bytes);
    Prng random(i);
    for (std::uint64_t e = 0; e < options.entries; ++e) {
      const std::uint64_t key = random();
      std::memcpy(&self.memory[e * options.entry_bytes], &key, sizeof key);
    }
    YONDER_TRY(receiver, ShuffleReceiver::create(*self.fabric, *self.queue, *self.scheduler,
                                                 {.address = free_address(options.provider),
                                                  .senders = options.executors,
                                                  .index = i,
                                                  .ring_bytes = 256 * 1024}));
    self.receiver = std::move(receiver);
    addresses.push_back(self.receiver->address());
  }
  for (std::uint32_t i = 0; i < options.executors; ++i) {
    Executor& self = executors[i];
    YONDER_TRY(sender, ShuffleSender::connect(*self.fabric, *self.queue, *self.scheduler,
                                              {.receivers = addresses,
                                               .senders = options.executors,
                                               .index = i,
                                               .strategy = options.strategy,
                                               .batch_entries = options.batch_entries,
                                               .timeout = std::chrono::seconds(30)}));
    self.sender = std::move(sender);
  }
  return {};
}

Result<double> run(std::vector<Executor>& executors, const RealShuffleOptions& options) {
  const Clock& clock = executors[0].queue->clock();
  const Instant begin = clock.now();
  std::vector<std::thread> threads;
  for (Executor& self : executors) {
    threads.emplace_back([&self, &options] {
      const Deadline deadline = Deadline::after(self.queue->clock(), kPatience);
      self.scheduler->spawn(send(self, options, deadline));
      self.scheduler->spawn(take(self, deadline));
      if (const auto ended = self.scheduler->run(deadline); !ended)
        self.taking = std::unexpected(ended.error());
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Duration elapsed = clock.now() - begin;
  std::uint64_t taken = 0;
  for (const Executor& self : executors) {
    if (!self.sending) return std::unexpected(self.sending.error());
    if (!self.taking) return std::unexpected(self.taking.error());
    taken += self.taken;
  }
  if (taken != options.entries * options.executors)
    return fail(ErrorCode::kCorrupt, "shuffle: entries are missing", static_cast<std::int64_t>(taken));
  return static_cast<double>(taken) * 1e3 / static_cast<double>(elapsed.count());
}

}  // namespace

Result<double> measure_real_shuffle(const RealShuffleOptions& options) {
  std::vector<Executor> executors(options.executors);
  YONDER_TRY_VOID(make_executors(executors, options));
  Result<double> rate = run(executors, options);
  for (Executor& self : executors) self.sender.reset();
  for (Executor& self : executors) self.receiver.reset();
  return rate;
}

}  // namespace yonder::bench
