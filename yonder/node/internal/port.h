#pragma once
// Port: a node as the clients of one fabric see it.
//
// It registers the node's memory with the fabric, read-only, and answers the
// methods of protocol.h. Handlers run inline on the pollers: each is a few hundred
// nanoseconds of work on the heap and waits for nothing but the copy of one object.
//
// Concurrency: add_superblock() from any thread, also while handlers run; the rest
// by whoever owns the server. Lifetime: the fabric outlives it; heap and lanes
// outlive its rpc server (close() ends that first), regions go before their memory.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/fabric/fabric.h"
#include "yonder/node/extents.h"
#include "yonder/node/heap.h"
#include "yonder/node/internal/lanes.h"
#include "yonder/node/internal/nic_views.h"
#include "yonder/node/internal/node_metrics.h"
#include "yonder/node/internal/shortage.h"
#include "yonder/node/internal/stages.h"
#include "yonder/node/protocol.h"
#include "yonder/node/server.h"
#include "yonder/rpc/server.h"
#include "yonder/sync/mutex.h"

namespace yonder::offload {
class Host;
}

namespace yonder::node::internal {

class Port {
 public:
  // `number`: of the port, and so of its fabric.
  Port(std::size_t number, const NodeOptions& options, const NodeMetrics& metrics, ExtentStore& extents);
  ~Port();

  // For a node that remaps blocks: finds out how this fabric's readers follow. Errors of
  // NicViews::create. Before open(), and before any block is made.
  Result<NicViews*> add_views();
  // Registers a superblock; before any frame of it is used.
  Result<void> add_superblock(const Superblock& superblock);
  void drop_last_superblock();
  // Registers the block table and the views, listens, and serves.
  Result<void> open(Heap& heap, Lanes& lanes, Shortage& shortage);
  // Who runs functions for clients; null: nobody does. Before open(); outlives the port.
  void use_host(offload::Host* host) { host_ = host; }
  // Ends serving and revokes the regions. Idempotent.
  void close();

  rpc::Server& server() { return *server_; }
  const rpc::Server& server() const { return *server_; }
  bool is_open() const { return server_ != nullptr; }
  Stages& stages() { return stages_; }
  const Stages& stages() const { return stages_; }

 private:
  Result<rpc::ServerOptions> server_options() const;
  void add_handlers();
  void add_object_handlers();
  void add_stage_handlers();
  void add_extent_handlers();
  void add_offload_handlers();
  Result<void> remove_extent(TenantId tenant, std::string_view name);

  protocol::NodeDescription describe(std::uint64_t first_superblock) const;

  // One operation each: what the method answers. Shared by requests and batches.
  // alloc(): kOutOfMemory at the limit, at once.
  Result<protocol::PointerMessage> alloc(HeapThread& thread, const protocol::AllocRequest& request) const;
  Result<rpc::Empty> free(HeapThread& thread, const protocol::PointerMessage& request) const;
  Result<protocol::PointerMessage> find(HeapThread& thread, const protocol::PointerMessage& request) const;
  Result<protocol::PointerMessage> release(HeapThread& thread, const protocol::PointerMessage& request) const;
  Result<protocol::PlaceAnswer> write(HeapThread& thread, const protocol::WriteRequest& request) const;
  // Writes place and bytes to `out` and returns how many; kMessageTooLong.
  Result<std::size_t> read(HeapThread& thread, const protocol::ReadRequest& request,
                           std::span<std::byte> out) const;
  // One item of a batch.
  Result<std::size_t> run_item(HeapThread& thread, protocol::Item kind, std::span<const std::byte> request,
                               std::span<std::byte> out) const;

  // Calls that may find the node at its limit, and wait then (port_waiting.cc).
  class AllocCall;
  class BatchCall;
  void answer_alloc(const rpc::Context& context, const protocol::AllocRequest& request,
                    rpc::Responder<protocol::Alloc> responder);
  void answer_batch(const rpc::Context& context, std::span<const std::byte> request,
                    rpc::RawResponder responder);
  void park(std::unique_ptr<WaitingCall> call, Deadline deadline);

  fabric::Fabric& fabric_;
  const PortOptions port_;
  const NodeOptions& options_;
  const NodeMetrics& metrics_;
  const std::size_t number_;
  ExtentStore& extents_;
  offload::Host* host_ = nullptr;
  Heap* heap_ = nullptr;
  Lanes* lanes_ = nullptr;
  Shortage* shortage_ = nullptr;
  Stages stages_;
  fabric::Region table_;
  std::unique_ptr<NicViews> views_;  // Null: blocks are not remapped.

  mutable sync::Mutex mutex_;
  std::vector<fabric::Region> superblocks_ YONDER_GUARDED_BY(mutex_);

  std::unique_ptr<rpc::Server> server_;
};

}  // namespace yonder::node::internal
