#include "yonder/fabric/sim/internal/receive_buffers.h"

#include "yonder/fabric/sim/internal/engine.h"

namespace yonder::fabric::sim {

Result<void> SharedReceiveQueue::post(std::span<const ReceiveRequest> receives) {
  if (!buffers_.push(receives)) return fail(ErrorCode::kQueueFull, "post to a shared receive queue");
  engine_.receives_posted(buffers_);
  return {};
}

}  // namespace yonder::fabric::sim
