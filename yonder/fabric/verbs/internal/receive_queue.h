#pragma once
// The shared receive queue: a real ibv_srq, and the buffers posted to it.
//
// Concurrency and lifetime: as ReceiveQueue. Completions are made by the threads
// of the endpoints' queues; the lock covers the list of free slots.

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "yonder/fabric/fabric.h"
#include "yonder/fabric/verbs/internal/receive_slot.h"

namespace yonder::fabric::verbs {

class VerbsReceiveQueue final : public ReceiveQueue {
 public:
  static Result<std::unique_ptr<ReceiveQueue>> create(std::shared_ptr<Device> device,
                                                      const RegionTable& regions, BouncePool& pool,
                                                      const ReceiveQueueOptions& options);
  ~VerbsReceiveQueue() override;

  Result<void> post(std::span<const ReceiveRequest> receives) override;
  void close() override;

  ibv_srq* srq() const { return srq_; }
  std::uint32_t capacity() const { return static_cast<std::uint32_t>(slots_.size()); }

  // A message took the buffer of `slot`; its completion.
  Completion take(ReceiveSlot& slot, const ibv_wc& wc, EndpointId id);
  // A queue pair that failed gave the buffer back unused.
  void post_again(ReceiveSlot& slot);

 private:
  VerbsReceiveQueue(std::shared_ptr<Device> device, const RegionTable& regions, BouncePool& pool,
                    std::uint32_t capacity);
  ReceiveSlot::Parts parts() { return {*device_, regions_, pool_}; }
  Result<void> prepare_all(std::span<const ReceiveRequest> receives, std::vector<ReceiveSlot*>& out);

  const std::shared_ptr<Device> device_;
  const RegionTable& regions_;
  BouncePool& pool_;
  ibv_srq* srq_ = nullptr;

  std::mutex mutex_;
  std::vector<ReceiveSlot> slots_;
  std::vector<ReceiveSlot*> free_;   // guarded by mutex_
  std::vector<ReceiveSlot*> batch_;  // guarded by mutex_; kept to allocate nothing
};

}  // namespace yonder::fabric::verbs
