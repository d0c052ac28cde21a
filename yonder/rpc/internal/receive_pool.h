#pragma once
// The buffers for incoming requests, shared by all connections of a server.
//
// One pool for all pollers, because a listener gives all its endpoints the same
// ReceiveQueue: a buffer taken by one poller's connection may next time be taken
// by another's.
//
// Concurrency: post() from any thread. Lifetime: outlives the connections.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "yonder/base/check.h"
#include "yonder/base/result.h"
#include "yonder/fabric/completion_queue.h"
#include "yonder/fabric/fabric.h"

namespace yonder::rpc {

struct ServerCore;

// A buffer for one request; the Operation is that of its receive.
struct ServerReceive : fabric::Operation {
  explicit ServerReceive(Done done) : Operation(done) {}

  ServerCore* core = nullptr;
  fabric::LocalPiece buffer;

  fabric::ReceiveRequest request() {
    return {.user_data = reinterpret_cast<std::uint64_t>(static_cast<fabric::Operation*>(this)),
            .buffer = buffer,
            .flags = fabric::RequestFlags::kOperation};
  }
};

class ReceivePool {
 public:
  ReceivePool(std::unique_ptr<fabric::ReceiveQueue> queue, std::uint32_t count, std::uint32_t bytes,
              ServerCore& core, fabric::Operation::Done on_receive)
      : queue_(std::move(queue)) {
    const std::size_t stride = (std::size_t{bytes} + 63) / 64 * 64;
    memory_ = std::make_unique_for_overwrite<std::byte[]>(count * stride);
    receives_.assign(count, ServerReceive(on_receive));
    for (std::size_t i = 0; i < count; ++i) {
      receives_[i].core = &core;
      receives_[i].buffer = {.data = memory_.get() + i * stride, .length = bytes};
      const fabric::ReceiveRequest request = receives_[i].request();
      post({&request, 1});
    }
  }
  // The endpoints are closed by now.
  ~ReceivePool() { queue_->close(); }

  // Gives buffers to the fabric (again).
  void post(std::span<const fabric::ReceiveRequest> receives) {
    const Result<void> posted = queue_->post(receives);
    YONDER_CHECK(posted.has_value(), "the receive queue has room for every buffer");
  }

  fabric::ReceiveQueue& queue() { return *queue_; }

 private:
  std::unique_ptr<fabric::ReceiveQueue> queue_;
  std::unique_ptr<std::byte[]> memory_;
  std::vector<ServerReceive> receives_;
};

}  // namespace yonder::rpc
