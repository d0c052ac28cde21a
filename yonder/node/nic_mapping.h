#pragma once
// How a NIC follows a block that was remapped (`Remap::kMmap`, CoRM 3.5).
//
//   strategy       after the switch                        a reader that comes
//   kOdpPrefetch   the NIC forgets the old pages and       in that moment: waits for the
//                  loads the new ones at once              pages, not for a fault
//   kOdp           the NIC forgets the old pages           first: waits for a page fault
//   kRereg         the block is registered anew, under     meanwhile: loses its connection,
//                  the same key                            which comes back by itself
//
// The first two need a device with on-demand paging, and reach all views through one
// region. The third works on every RNIC; each block is a region of its own, so that nobody
// loses a connection but those who read this block, and only its frame is pinned.
//
// It concerns NICs. Over tcp the node's own processor reads, through the same mappings:
// there is nothing to tell. Over shm the readers map the memory themselves and would not
// notice a switch: a node that remaps has no such port.
//
// Concurrency and lifetime: a value.

#include <cstdint>

namespace yonder::node {

enum class NicMapping : std::uint8_t {
  kAuto,  // The first of the others that the device can do.
  kOdpPrefetch,
  kOdp,
  kRereg,
};

}  // namespace yonder::node
