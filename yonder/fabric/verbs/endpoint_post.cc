// Posting: from the caller's requests to work requests of the NIC.
#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "yonder/base/check.h"
#include "yonder/fabric/verbs/internal/endpoint.h"

namespace yonder::fabric::verbs {
namespace {

// No region is larger; what reaches beyond is refused here, because some drivers
// add offset and length without minding the carry.
constexpr std::uint64_t kMaxRegionBytes = std::uint64_t{1} << 56;

bool moves_data_out(Op op) { return op == Op::kWrite || op == Op::kWriteImm || op == Op::kSend; }

ibv_wr_opcode opcode_of(Op op) {
  switch (op) {
    case Op::kRead:
      return IBV_WR_RDMA_READ;
    case Op::kWrite:
      return IBV_WR_RDMA_WRITE;
    case Op::kWriteImm:
      return IBV_WR_RDMA_WRITE_WITH_IMM;
    case Op::kSend:
      return IBV_WR_SEND_WITH_IMM;
    case Op::kCompareSwap:
      return IBV_WR_ATOMIC_CMP_AND_SWP;
    default:
      return IBV_WR_ATOMIC_FETCH_AND_ADD;
  }
}

bool all_registered(const WorkRequest& request) {
  return std::ranges::none_of(
      request.local, [](const LocalPiece& piece) { return piece.length != 0 && piece.key == kUnregistered; });
}

// `length` is what an allowed request moves.
ErrorCode check(const WorkRequest& request, const Limits& limits, std::uint64_t length) {
  const ErrorCode code = check_request(request, limits);
  if (code != ErrorCode::kOk || request.op == Op::kSend) return code;
  return request.remote.offset <= kMaxRegionBytes - length ? ErrorCode::kOk : ErrorCode::kOutOfBounds;
}

}  // namespace

Result<std::size_t> VerbsEndpoint::do_post(std::span<const WorkRequest> requests) {
  if (phase_ == Phase::kClosed) return fail(ErrorCode::kClosed, "post on a closed endpoint");
  if (requests.empty()) return 0;
  if (phase_ == Phase::kResuming) verbs_queue_.attend();
  const std::uint64_t first = ring_.tail();
  const std::size_t room = std::min(requests.size(), verbs_queue_.room());
  std::size_t count = 0;
  while (count < room && prepare(requests[count])) ++count;
  if (count == 0) return fail(ErrorCode::kQueueFull, "post", limits_.depth);
  verbs_queue_.begin(count);
  if (phase_ == Phase::kOpen) ring_doorbell();
  start_timers(first);
  if (phase_ == Phase::kBroken) fail_requests(ErrorCode::kConnectionLost);
  if (rejected_ != 0) complete_rejected();
  return count;
}

// False if there is no room for it.
bool VerbsEndpoint::prepare(const WorkRequest& request) {
  const std::uint64_t length = is_atomic(request.op) ? 8 : local_bytes(request);
  const ErrorCode code = check(request, limits_, length);
  const auto pieces = code == ErrorCode::kOk ? static_cast<std::uint32_t>(request.local.size()) : 0;
  SendSlot* slot = ring_.prepare(pieces);
  if (slot == nullptr) return false;
  slot->op = request.op;
  slot->flags = request.flags;
  slot->user_data = request.user_data;
  slot->remote = request.remote;
  slot->deadline = request.deadline;
  slot->status = code;
  slot->wr.wr_id = reinterpret_cast<std::uint64_t>(slot) | static_cast<std::uint64_t>(SlotKind::kSend);
  slot->wr.next = nullptr;
  slot->wr.send_flags = 0;
  if (code == ErrorCode::kOk) {
    slot->length = static_cast<std::uint32_t>(length);
    const Result<void> staged = stage(*slot, request);
    if (!staged) slot->status = staged.error().code();
  }
  ring_.commit();
  if (slot->status != ErrorCode::kOk) {
    slot->state = SlotState::kRejected;
    ++rejected_;
    return true;
  }
  // The slots of the ring come back when the NIC reports a later request, so a
  // long run of unsignalled ones must be broken by a report of our own.
  if (!slot->is_silent() || ++silent_run_ * 2 >= limits_.depth) {
    slot->wr.send_flags |= IBV_SEND_SIGNALED;
    silent_run_ = 0;
  }
  return true;
}

// Gives the slots from `first` on their deadlines. After the doorbell: reading the
// clock is work that the NIC need not wait for.
void VerbsEndpoint::start_timers(std::uint64_t first) {
  const Deadline fallback = Deadline::at(core_.clock.now() + options_.default_timeout);
  for (std::uint64_t i = first; i < ring_.tail(); ++i) {
    SendSlot& slot = ring_.at(i);
    slot.deadline = slot.deadline.or_default(fallback);
    if (slot.deadline.instant() >= earliest_deadline_) continue;
    earliest_deadline_ = slot.deadline.instant();
    verbs_queue_.note_timer(earliest_deadline_);
  }
}

Result<void> VerbsEndpoint::stage(SendSlot& slot, const WorkRequest& request) {
  ibv_send_wr& wr = slot.wr;
  wr.opcode = opcode_of(request.op);
  wr.imm_data = htonl(request.immediate);
  aim(slot);
  if (is_atomic(request.op)) {
    // Regions with atomics start at a multiple of 8, so this is no key of one.
    if (wr.wr.atomic.remote_addr % 8 != 0) return fail(ErrorCode::kAccessDenied, "atomic operation");
    if (request.op == Op::kCompareSwap) {
      wr.wr.atomic.compare_add = request.compare;
      wr.wr.atomic.swap = request.operand;
    } else {
      wr.wr.atomic.compare_add = request.operand;
    }
    stage_own_memory(slot, request, slot.staging, staging_registration_->lkey);
    return {};
  }
  const bool copies_now = has(request.flags, RequestFlags::kInline);
  const bool is_registered = !copies_now && all_registered(request);
  if (is_registered) {
    stage_pieces(slot, request);
  } else if (slot.length <= SendRing::kStagingBytes) {
    stage_own_memory(slot, request, slot.staging, staging_registration_->lkey);
    if (moves_data_out(request.op) && slot.length <= core_.device->max_inline()) {
      wr.send_flags |= IBV_SEND_INLINE;
    }
  } else if (slot.length <= BouncePool::kMaxBytes) {
    YONDER_TRY(block, core_.pool.take(slot.length));
    slot.bounce = block;
    stage_own_memory(slot, request, block.data, block.lkey);
  } else {
    return stage_registering(slot, request);
  }
  return {};
}

// The transfer goes through memory of ours: filled now, or emptied at completion.
void VerbsEndpoint::stage_own_memory(SendSlot& slot, const WorkRequest& request, std::byte* memory,
                                     std::uint32_t lkey) {
  slot.single = {.addr = reinterpret_cast<std::uint64_t>(memory), .length = slot.length, .lkey = lkey};
  slot.wr.sg_list = &slot.single;
  slot.wr.num_sge = slot.length == 0 ? 0 : 1;
  if (moves_data_out(request.op)) {
    for (const LocalPiece& piece : request.local) {
      if (piece.length != 0) std::memcpy(memory, piece.data, piece.length);
      memory += piece.length;
    }
    return;
  }
  slot.scatter_from = memory;
  for (std::size_t i = 0; i < request.local.size(); ++i) {
    slot.pieces[i] = {.addr = reinterpret_cast<std::uint64_t>(request.local[i].data),
                      .length = request.local[i].length,
                      .lkey = 0};
  }
}

// Everything is registered: the NIC works on the caller's memory.
void VerbsEndpoint::stage_pieces(SendSlot& slot, const WorkRequest& request) {
  int count = 0;
  for (const LocalPiece& piece : request.local) {
    if (piece.length == 0) continue;  // To a NIC, length 0 means 2 GiB.
    const NicBuffer local = core_.regions.local_address(piece.data, piece.key);
    slot.pieces[static_cast<std::size_t>(count++)] = {
        .addr = local.address, .length = piece.length, .lkey = local.lkey};
  }
  slot.wr.sg_list = slot.pieces.data();
  slot.wr.num_sge = count;
}

// Too long for a copy: registers the pieces for the time of the transfer. One
// system call per piece, which above 1 MiB is less than the copy would cost.
Result<void> VerbsEndpoint::stage_registering(SendSlot& slot, const WorkRequest& request) {
  int count = 0;
  for (const LocalPiece& piece : request.local) {
    if (piece.length == 0) continue;
    NicBuffer local = core_.regions.local_address(piece.data, piece.key);
    if (piece.key == kUnregistered) {
      const auto address = reinterpret_cast<std::uint64_t>(piece.data);
      const unsigned access = moves_data_out(request.op) ? 0 : IBV_ACCESS_LOCAL_WRITE;
      auto registration = register_with_nic(*core_.device, piece.data, piece.length, address, access);
      if (!registration) {
        release(slot);
        return std::unexpected(registration.error());
      }
      slot.temporary.push_back(*registration);
      local = {.address = address, .lkey = (*registration)->lkey};
    }
    slot.pieces[static_cast<std::size_t>(count++)] = {
        .addr = local.address, .length = piece.length, .lkey = local.lkey};
  }
  slot.wr.sg_list = slot.pieces.data();
  slot.wr.num_sge = count;
  return {};
}

// Where the NIC of the target finds the region now.
void VerbsEndpoint::aim(SendSlot& slot) {
  if (slot.op == Op::kSend) return;
  const NicKey key = current_key(slot.remote.key);
  const std::uint64_t address = slot.remote.offset + key.page_offset;
  if (is_atomic(slot.op)) {
    slot.wr.wr.atomic.remote_addr = address;
    slot.wr.wr.atomic.rkey = key.rkey;
  } else {
    slot.wr.wr.rdma.remote_addr = address;
    slot.wr.wr.rdma.rkey = key.rkey;
  }
}

NicKey VerbsEndpoint::current_key(RegionKey key) const {
  if (!rebound_.empty()) [[unlikely]] {
    const auto found = rebound_.find(key.value);
    if (found != rebound_.end()) return decode_key(found->second);
  }
  return decode_key(key);
}

// One list, one doorbell, for all slots that are not with the NIC yet.
void VerbsEndpoint::ring_doorbell() {
  while (ibv_send_wr* first = chain_unposted()) {
    ibv_send_wr* bad = nullptr;
    if (::ibv_post_send(link_->qp(), first, &bad) == 0) return;
    // Not a request was refused but the doorbell itself failed (a driver whose
    // doorbell is a system call): what the NIC knows of the list is in doubt.
    if (bad == nullptr) return note_failure();
    // The driver does not like this one; it took those before. The rest goes out
    // with another doorbell.
    auto& slot = *reinterpret_cast<SendSlot*>(bad->wr_id & ~kSlotKindMask);
    for (std::uint64_t i = slot.sequence; i < ring_.tail(); ++i) {
      if (ring_.at(i).state == SlotState::kPosted) ring_.at(i).state = SlotState::kQueued;
    }
    slot.state = SlotState::kRejected;
    slot.status = ErrorCode::kInvalidArgument;
    ++rejected_;
    unposted_ = slot.sequence + 1;
  }
}

// Links the waiting slots to a list; null if none waits.
ibv_send_wr* VerbsEndpoint::chain_unposted() {
  ibv_send_wr* first = nullptr;
  ibv_send_wr** next = &first;
  for (; unposted_ < ring_.tail(); ++unposted_) {
    SendSlot& slot = ring_.at(unposted_);
    if (slot.state != SlotState::kQueued) continue;
    slot.state = SlotState::kPosted;
    slot.was_posted = true;
    *next = &slot.wr;
    next = &slot.wr.next;
  }
  *next = nullptr;
  return first;
}

// ---------------------------------------------------------------- receives

Result<void> VerbsEndpoint::post_receive(std::span<const ReceiveRequest> receives) {
  if (phase_ == Phase::kClosed) return fail(ErrorCode::kClosed, "post_receive on a closed endpoint");
  if (shared_ != nullptr) {
    return fail(ErrorCode::kInvalidArgument, "post_receive: the endpoint takes from a shared queue");
  }
  // A fresh endpoint takes its link here: the peer may be sending already, and
  // nobody promised to poll before it does.
  if (phase_ == Phase::kResuming) verbs_queue_.attend();
  const std::uint64_t posted = receives_tail_ - receives_head_;
  if (receives.size() > limits_.receive_depth - posted || receives.size() > verbs_queue_.room()) {
    return fail(ErrorCode::kQueueFull, "post_receive", limits_.receive_depth);
  }
  std::uint64_t tail = receives_tail_;
  for (const ReceiveRequest& receive : receives) {
    ReceiveSlot& slot = receives_[tail % receives_.size()];
    ++tail;
    const Result<void> prepared =
        slot.prepare(receive_parts(), receive, limits_.max_message, SlotKind::kReceive);
    if (prepared) continue;
    while (tail != receives_tail_) receives_[--tail % receives_.size()].release(receive_parts());
    return prepared;
  }
  const std::uint64_t first = std::exchange(receives_tail_, tail);
  verbs_queue_.begin(receives.size());
  if (phase_ == Phase::kOpen) post_receives_from(first);
  if (phase_ == Phase::kBroken) fail_receives(ErrorCode::kConnectionLost);
  return {};
}

void VerbsEndpoint::post_receives_from(std::uint64_t first) {
  if (first == receives_tail_) return;
  for (std::uint64_t i = first; i < receives_tail_; ++i) {
    ibv_recv_wr* next = i + 1 < receives_tail_ ? &receives_[(i + 1) % receives_.size()].wr : nullptr;
    receives_[i % receives_.size()].wr.next = next;
  }
  ibv_recv_wr* bad = nullptr;
  if (::ibv_post_recv(link_->qp(), &receives_[first % receives_.size()].wr, &bad) != 0) note_failure();
}

}  // namespace yonder::fabric::verbs
