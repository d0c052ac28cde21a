#pragma once
// Lane: a connection to a source on which pages are read, one-sidedly.
//
// Demand pulls and the prefetcher have lanes of their own, so that a page that somebody
// waits for never queues behind pages that nobody waits for.
//
// Concurrency: one thread at a time (Arrival hands lanes out). Lifetime: the fabric
// outlives it; memory that is read into must stay until the read has ended.

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "yonder/base/result.h"
#include "yonder/fabric/fabric.h"

namespace yonder::segment::internal {

struct LaneOptions {
  std::uint32_t depth = 16;
  // How long who waits for a read looks before it sleeps. Nobody waits for the prefetcher: it
  // must not keep a core busy that somebody needs who touches pages.
  Duration spin = std::chrono::microseconds(50);
};

class Lane {
 public:
  static Result<std::unique_ptr<Lane>> connect(fabric::Fabric& fabric, const std::string& address,
                                               const LaneOptions& options) {
    const std::uint32_t depth = options.depth;
    YONDER_TRY(queue, fabric.create_completion_queue({.capacity = 4 * depth + 64, .spin = options.spin}));
    YONDER_TRY(endpoint, fabric.connect(
                             {.address = address, .endpoint = {.depth = depth, .receive_depth = 1}}, *queue));
    return std::unique_ptr<Lane>(new Lane(std::move(queue), std::move(endpoint)));
  }

  // Errors of a fabric's read.
  Result<void> read(fabric::LocalPiece into, fabric::RemoteAddress from, Deadline deadline) {
    YONDER_TRY_VOID(endpoint_->read(into, from, deadline).wait());
    return {};
  }

  fabric::Endpoint& endpoint() { return *endpoint_; }
  fabric::CompletionQueue& queue() { return *queue_; }

 private:
  Lane(std::unique_ptr<fabric::CompletionQueue> queue, std::unique_ptr<fabric::Endpoint> endpoint)
      : queue_(std::move(queue)), endpoint_(std::move(endpoint)) {}

  std::unique_ptr<fabric::CompletionQueue> queue_;
  std::unique_ptr<fabric::Endpoint> endpoint_;
};

}  // namespace yonder::segment::internal
