#pragma once
// PeerLine: one rpc connection that threads take turns on.
//
// Segments are moved seldom, by whichever thread decides to: an rpc client belongs to
// one thread at a time, so a line has a lock, held for one call.
//
//   YONDER_TRY(line, PeerLine::connect(fabric, address));
//   YONDER_TRY(answer, line->call<protocol::Find>({segment}, deadline));
//
// Concurrency: any thread. Lifetime: the fabric outlives it.

#include <memory>
#include <string>

#include "yonder/base/result.h"
#include "yonder/fabric/fabric.h"
#include "yonder/rpc/client.h"
#include "yonder/sync/mutex.h"

namespace yonder::segment::internal {

class PeerLine {
 public:
  static Result<std::unique_ptr<PeerLine>> connect(fabric::Fabric& fabric, const std::string& address) {
    YONDER_TRY(queue, fabric.create_completion_queue({.capacity = 1024}));
    YONDER_TRY(client, rpc::Client::connect(fabric, address, *queue, {}));
    return std::unique_ptr<PeerLine>(new PeerLine(std::move(queue), std::move(client)));
  }

  template <rpc::Method M>
  Result<typename M::Response> call(typename M::Request request, Deadline deadline) {
    const sync::LockGuard lock(mutex_);
    return client_->call<M>(std::move(request), deadline).wait();
  }

 private:
  PeerLine(std::unique_ptr<fabric::CompletionQueue> queue, rpc::ClientPtr client)
      : queue_(std::move(queue)), client_(std::move(client)) {}

  sync::Mutex mutex_;
  std::unique_ptr<fabric::CompletionQueue> queue_;
  rpc::ClientPtr client_ YONDER_GUARDED_BY(mutex_);
};

}  // namespace yonder::segment::internal
