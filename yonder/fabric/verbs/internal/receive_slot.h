#pragma once
// A posted receive buffer, of one endpoint or of a shared queue.
//
// Concurrency: the thread that owns the slot.

#include <infiniband/verbs.h>

#include <cstdint>

#include "yonder/base/result.h"
#include "yonder/fabric/types.h"
#include "yonder/fabric/verbs/internal/bounce_pool.h"
#include "yonder/fabric/verbs/internal/region_table.h"

namespace yonder::fabric::verbs {

class VerbsEndpoint;
class VerbsReceiveQueue;

// What a work request id points to, told by its lowest bits.
enum class SlotKind : std::uint64_t { kSend = 0, kReceive = 1, kShared = 2 };
inline constexpr std::uint64_t kSlotKindMask = 3;

struct ReceiveSlot {
  ibv_recv_wr wr{};
  ibv_sge sge{};
  union {
    VerbsEndpoint* endpoint = nullptr;  // SlotKind::kReceive
    VerbsReceiveQueue* shared;          // SlotKind::kShared
  };
  std::uint64_t user_data = 0;
  std::byte* buffer = nullptr;
  Block bounce;
  ibv_mr* temporary = nullptr;
  RequestFlags flags = RequestFlags::kNone;

  // Makes the work request. `max_bytes` bounds what is registered or bounced for
  // a buffer that is larger than any message. Errors: kResourceExhausted.
  struct Parts {
    const Device& device;
    const RegionTable& regions;
    BouncePool& pool;
  };
  Result<void> prepare(const Parts& parts, const ReceiveRequest& request, std::uint32_t max_bytes,
                       SlotKind kind);
  // The completion of a message that arrived; copies it out of a bounce block.
  Completion received(const ibv_wc& wc, EndpointId id) const;
  Completion failed(ErrorCode code, EndpointId id) const;
  // Gives back what prepare() took.
  void release(const Parts& parts);
};

}  // namespace yonder::fabric::verbs
