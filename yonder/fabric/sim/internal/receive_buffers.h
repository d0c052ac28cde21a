#pragma once
// Posted receives, oldest first: of one endpoint, or shared by many.
//
// Concurrency: one thread. Lifetime: borrowed buffers, until taken or cleared.

#include <cstdint>
#include <span>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/fabric/fabric.h"
#include "yonder/fabric/sim/internal/pool.h"

namespace yonder::fabric::sim {

class Engine;

class ReceiveBuffers {
 public:
  explicit ReceiveBuffers(std::uint32_t capacity)
      : ring_(capacity == 0 ? 1 : capacity), capacity_(capacity) {}

  // All or none.
  bool push(std::span<const ReceiveRequest> receives) {
    if (receives.size() > capacity_ - count_) return false;
    for (const ReceiveRequest& receive : receives) ring_[(first_ + count_++) % ring_.size()] = receive;
    return true;
  }
  bool empty() const { return count_ == 0; }
  // Requires !empty().
  ReceiveRequest pop() {
    const ReceiveRequest receive = ring_[first_];
    first_ = (first_ + 1) % ring_.size();
    --count_;
    return receive;
  }
  const ReceiveRequest& front() const { return ring_[first_]; }
  void clear() { count_ = 0; }

 private:
  std::vector<ReceiveRequest> ring_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  std::uint32_t capacity_;
};

// The ReceiveQueue of the fabric's interface.
class SharedReceiveQueue final : public ReceiveQueue {
 public:
  SharedReceiveQueue(Engine& engine, std::uint32_t capacity) : engine_(engine), buffers_(capacity) {}

  Result<void> post(std::span<const ReceiveRequest> receives) override;
  void close() override { buffers_.clear(); }

  ReceiveBuffers& buffers() { return buffers_; }

 private:
  Engine& engine_;
  ReceiveBuffers buffers_;
};

}  // namespace yonder::fabric::sim
