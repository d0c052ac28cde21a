#include "yonder/rpc/call_table.h"

#include <algorithm>

#include "yonder/base/check.h"

namespace yonder::rpc {

CallTable::CallTable(std::uint32_t slots, std::size_t buffer_bytes, Client& client,
                     fabric::Operation::Done on_sent) {
  YONDER_CHECK(slots > 0 && slots <= kMaxSlots, "a request id has 16 bits for the slot");
  // Whole cache lines, so that no two slots share one. Not zeroed: pages that no
  // request ever needs are never touched.
  const std::size_t stride = (buffer_bytes + 63) / 64 * 64;
  buffers_ = std::make_unique_for_overwrite<std::byte[]>(slots * stride);
  slots_.assign(slots, Slot(on_sent));
  free_.reserve(slots);
  for (std::uint32_t i = 0; i < slots; ++i) {
    slots_[i].client = &client;
    slots_[i].buffer = buffers_.get() + i * stride;
    free_.push_back(slots - 1 - i);
  }
}

void CallTable::check_invariants() const {
  std::vector<bool> is_free(slots_.size(), false);
  for (const std::uint32_t index : free_) {
    YONDER_CHECK(!is_free[index], "I1: a slot is free once");
    is_free[index] = true;
  }
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    const bool in_use = slot.request_id != 0 || slot.sending;
    YONDER_CHECK(in_use != is_free[i], "I1: a slot is free or in use");
    YONDER_CHECK(slot.call == nullptr || slot.request_id != 0, "a call waits for an answer");
    YONDER_CHECK(slot.request_id == 0 || (slot.request_id & 0xffff) == i, "I2: an id names its slot");
  }
}

}  // namespace yonder::rpc
