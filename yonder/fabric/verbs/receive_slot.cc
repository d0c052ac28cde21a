#include "yonder/fabric/verbs/internal/receive_slot.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

namespace yonder::fabric::verbs {

Result<void> ReceiveSlot::prepare(const Parts& parts, const ReceiveRequest& request, std::uint32_t max_bytes,
                                  SlotKind kind) {
  const LocalPiece& piece = request.buffer;
  user_data = request.user_data;
  flags = request.flags;
  buffer = piece.data;
  wr = {};
  wr.wr_id = reinterpret_cast<std::uint64_t>(this) | static_cast<std::uint64_t>(kind);
  if (piece.length == 0) return {};
  if (piece.key != kUnregistered) {
    const NicBuffer local = parts.regions.local_address(piece.data, piece.key);
    sge = {.addr = local.address, .length = piece.length, .lkey = local.lkey};
  } else if (const std::uint32_t bytes = std::min(piece.length, max_bytes); bytes <= BouncePool::kMaxBytes) {
    YONDER_TRY(block, parts.pool.take(bytes));
    bounce = block;
    sge = {.addr = reinterpret_cast<std::uint64_t>(block.data), .length = bytes, .lkey = block.lkey};
  } else {
    const auto address = reinterpret_cast<std::uint64_t>(piece.data);
    YONDER_TRY(registration,
               register_with_nic(parts.device, piece.data, bytes, address, IBV_ACCESS_LOCAL_WRITE));
    temporary = registration;
    sge = {.addr = address, .length = bytes, .lkey = registration->lkey};
  }
  wr.sg_list = &sge;
  wr.num_sge = 1;
  return {};
}

Completion ReceiveSlot::received(const ibv_wc& wc, EndpointId id) const {
  const bool is_write = wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM;
  if (bounce && !is_write) std::memcpy(buffer, bounce.data, wc.byte_len);
  return {.user_data = user_data,
          .endpoint = id,
          .length = wc.byte_len,
          .immediate = (wc.wc_flags & IBV_WC_WITH_IMM) != 0 ? ntohl(wc.imm_data) : 0,
          .op = is_write ? Op::kReceiveImm : Op::kReceive,
          .flags = flags};
}

Completion ReceiveSlot::failed(ErrorCode code, EndpointId id) const {
  return {.user_data = user_data, .endpoint = id, .status = code, .op = Op::kReceive, .flags = flags};
}

void ReceiveSlot::release(const Parts& parts) {
  if (bounce) parts.pool.give(std::exchange(bounce, {}));
  if (temporary != nullptr) parts.device.library().dereg_mr(std::exchange(temporary, nullptr));
}

}  // namespace yonder::fabric::verbs
