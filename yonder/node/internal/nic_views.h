#pragma once
// NicViews: the block views of a node as the readers of one fabric reach them.
//
// It registers what they read and tells the fabric's NIC of every switch
// (nic_mapping.h). What readers are told is one of
//   arena   all views are one region: block b begins at b × stride
//   keys    every view is a region; its key is word b of a table, itself a region. A word
//           is 0 while the id has no view, and the same for as long as it has one
//
// A switch is told before it is published: when moved() has returned, no access that
// begins later reaches the old frame (V1 of block_views.h).
//
// Concurrency: that of BlockViews; describe() from any thread after open().
// Lifetime: the fabric and the views outlive open … close.

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/fabric/fabric.h"
#include "yonder/node/block_views.h"
#include "yonder/node/nic_mapping.h"
#include "yonder/node/protocol.h"
#include "yonder/os/mapping.h"

namespace yonder::node::internal {

class NicViews {
 public:
  // Finds out what the fabric can do. kUnsupported: not what is wanted, or nothing.
  static Result<std::unique_ptr<NicViews>> create(fabric::Fabric& fabric, NicMapping wanted);

  // Before blocks are used; those that a heap went on with are in the table. What is told
  // earlier is not needed. Errors of Fabric::register_memory.
  Result<void> open(const BlockViews& views, const BlockTable& table);
  // Revokes everything. Idempotent.
  void close();

  protocol::Views describe() const;

  Result<void> placed(const BlockView& view);
  Result<void> moved(const BlockView& view);
  void removed(BlockId block);

 private:
  enum class How : std::uint8_t { kProcessor, kOdp, kOdpPrefetch, kRereg };

  NicViews(fabric::Fabric& fabric, How how) : fabric_(fabric), how_(how) {}
  static Result<How> choose(fabric::Fabric& fabric, NicMapping wanted);
  Result<void> open_arena();
  Result<void> open_keys(const BlockTable& table);
  std::uint64_t offset_of(const BlockView& view) const;
  void store_key(BlockId block, fabric::RegionKey key);

  fabric::Fabric& fabric_;
  const How how_;
  const BlockViews* views_ = nullptr;
  fabric::Region region_;  // The arena, or the table of keys.
  // kRereg: the table, and the region of each block (the block's own thread's).
  os::Mapping keys_;
  std::vector<fabric::Region> blocks_;
};

// Tells the NICs of all ports.
class AllNicViews final : public ViewObserver {
 public:
  void add(NicViews& views) { all_.push_back(&views); }
  Result<void> placed(const BlockView& view) override;
  Result<void> moved(const BlockView& view) override;
  void removed(BlockId block) override;

 private:
  std::vector<NicViews*> all_;
};

}  // namespace yonder::node::internal
