#include "bench/shuffle/sim_shuffle.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "bench/shuffle/sim_cluster.h"
#include "yonder/base/prng.h"
#include "yonder/structures/shuffle_receiver.h"
#include "yonder/structures/shuffle_sender.h"

namespace yonder::bench {
namespace {

using fabric::Task;
using structures::ShuffleBatch;
using structures::ShuffleReceiver;
using structures::ShuffleSender;

// 16 rings of an executor take 512 KiB, both executors of a machine 1 MiB, and their
// mirrors as much: half of what a NIC's translations reach.
constexpr std::uint64_t kRingBytes = 32 * 1024;
constexpr std::uint64_t kStep = 16;  // entries computed at once

struct Executor {
  std::unique_ptr<fabric::CompletionQueue> queue;
  std::unique_ptr<SimThread> thread;
  std::vector<std::byte> memory;  // the entries, where they lie
  fabric::Region region;
  std::unique_ptr<ShuffleReceiver> receiver;
  std::unique_ptr<ShuffleSender> sender;
  std::uint64_t taken = 0;
  Instant end;  // of the later of its two tasks
  Result<void> sending;
  Result<void> taking;
};

class SimShuffle {
 public:
  explicit SimShuffle(const SimShuffleOptions& options)
      : options_(options), cluster_(options.seed, options.numa_aware), executors_(options.executors) {}
  ~SimShuffle() {
    for (Executor& self : executors_) self.sender.reset();
    for (Executor& self : executors_) self.receiver.reset();
  }

  Result<void> gather() {
    std::vector<std::string> addresses;
    for (std::uint32_t i = 0; i < options_.executors; ++i) {
      YONDER_TRY_VOID(make_executor(i));
      addresses.push_back(cluster_.address_of(i));
    }
    for (std::uint32_t i = 0; i < options_.executors; ++i) {
      Executor& self = executors_[i];
      YONDER_TRY(sender, ShuffleSender::connect(cluster_.fabric_of(i), *self.queue, *scheduler_,
                                                {.receivers = addresses,
                                                 .senders = options_.executors,
                                                 .index = i,
                                                 .strategy = options_.strategy,
                                                 .batch_entries = options_.batch_entries,
                                                 .entry_memory = self.region.local_key(),
                                                 .max_pause = std::chrono::microseconds(4)}));
      self.sender = std::move(sender);
    }
    return {};
  }

  Result<double> run() {
    const Instant begin = cluster_.clock().now();
    for (Executor& self : executors_) {
      scheduler_->spawn(send(self));
      scheduler_->spawn(take(self));
    }
    YONDER_TRY_VOID(scheduler_->run(Deadline::after(cluster_.clock(), std::chrono::seconds(60))));
    std::uint64_t taken = 0;
    Instant end;
    for (const Executor& self : executors_) {
      if (!self.sending) return std::unexpected(self.sending.error());
      if (!self.taking) return std::unexpected(self.taking.error());
      taken += self.taken;
      end = std::max(end, self.end);
    }
    if (taken != options_.entries * options_.executors)
      return fail(ErrorCode::kCorrupt, "shuffle: entries are missing", static_cast<std::int64_t>(taken));
    return static_cast<double>(taken) * 1e3 / static_cast<double>((end - begin).count());
  }

 private:
  Result<void> make_executor(std::uint32_t index) {
    Executor& self = executors_[index];
    fabric::Fabric& fabric = cluster_.fabric_of(index);
    YONDER_TRY(queue, fabric.create_completion_queue({}));
    self.queue = std::move(queue);
    if (scheduler_ == nullptr) scheduler_ = std::make_unique<fabric::Scheduler>(*self.queue);
    self.thread = std::make_unique<SimThread>(*self.queue, *scheduler_);
    self.memory.resize(options_.entries * options_.entry_bytes);
    Prng random(options_.seed * 1000 + index);
    for (std::uint64_t i = 0; i < options_.entries; ++i) {
      const std::uint64_t key = random();
      std::memcpy(&self.memory[i * options_.entry_bytes], &key, sizeof key);
    }
    YONDER_TRY(region, fabric.register_memory({.memory = self.memory}));
    self.region = std::move(region);
    YONDER_TRY(receiver, ShuffleReceiver::create(fabric, *self.queue, *scheduler_,
                                                 {.address = cluster_.address_of(index),
                                                  .senders = options_.executors,
                                                  .index = index,
                                                  .ring_bytes = kRingBytes,
                                                  .max_pause = std::chrono::microseconds(4)}));
    self.receiver = std::move(receiver);
    return {};
  }

  Task<void> send(Executor& self) {
    const Deadline deadline = Deadline::after(cluster_.clock(), std::chrono::seconds(50));
    for (std::uint64_t i = 0; i < options_.entries; ++i) {
      if (i % kStep == 0) co_await self.thread->compute(kPartitionTime * kStep);
      const auto entry =
          std::span<const std::byte>(self.memory).subspan(i * options_.entry_bytes, options_.entry_bytes);
      self.sending =
          co_await self.sender->async_add({.key = entry.first(8), .value = entry.subspan(8)}, deadline);
      if (!self.sending) co_return;
    }
    self.sending = co_await self.sender->async_finish(deadline);
  }

  Task<void> take(Executor& self) {
    const Deadline deadline = Deadline::after(cluster_.clock(), std::chrono::seconds(50));
    for (;;) {
      Result<ShuffleBatch> batch = co_await self.receiver->async_next(deadline);
      if (!batch) {
        self.taking = std::unexpected(batch.error());
        co_return;
      }
      if (batch->is_end()) break;
      self.taken += batch->size();
      co_await self.thread->compute(kConsumeTime * batch->size());
    }
    // What follows is the goodbye, which pauses between looks: not part of the exchange.
    self.end = cluster_.clock().now();
    self.taking = co_await self.receiver->async_finish(deadline);
  }

  const SimShuffleOptions options_;
  SimCluster cluster_;
  std::vector<Executor> executors_;
  std::unique_ptr<fabric::Scheduler> scheduler_;
};

}  // namespace

Result<double> measure_sim_shuffle(const SimShuffleOptions& options) {
  SimShuffle shuffle(options);
  YONDER_TRY_VOID(shuffle.gather());
  return shuffle.run();
}

}  // namespace yonder::bench
