#pragma once
// The requests of an endpoint that are not over, in post order.
//
// A slot keeps everything needed to post its request again: after a refused
// access the queue pair is replaced and the requests behind the refused one are
// repeated from here. Slots and scatter-gather entries are rings that are
// allocated once.
//
//   head            unposted             tail
//    | posted to the NIC | waiting for a link |   free …
//
//   slot state | means
//   -----------+-------------------------------------------------------------
//   kQueued    | not with the NIC: just prepared, or waiting for a connection
//   kPosted    | with the NIC
//   kRefused   | the target's NIC refused it; waits for the reason
//   kRejected  | failed before it was posted; completes when its turn comes
//   kDone      | completed out of turn; only keeps its place
//
// Concurrency: the endpoint's thread.

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "yonder/base/time.h"
#include "yonder/fabric/types.h"
#include "yonder/fabric/verbs/internal/bounce_pool.h"

namespace yonder::fabric::verbs {

class VerbsEndpoint;

enum class SlotState : std::uint8_t { kQueued, kPosted, kRefused, kRejected, kDone };

struct SendSlot {
  ibv_send_wr wr{};
  ibv_sge single{};  // The one entry of a request that goes through our own memory.

  VerbsEndpoint* owner = nullptr;
  std::byte* staging = nullptr;  // kStagingBytes of registered memory, this slot's own.

  std::uint64_t sequence = 0;
  std::uint64_t user_data = 0;
  RemoteAddress remote;
  Deadline deadline;
  std::span<ibv_sge> pieces;          // Entries for the NIC, or the caller's pieces to scatter into.
  std::uint64_t pieces_end = 0;       // Where the next slot's pieces start.
  std::byte* scatter_from = nullptr;  // Set: a read into our memory, copied out at completion.
  Block bounce;
  std::vector<ibv_mr*> temporary;  // Registrations for this transfer alone.
  std::uint32_t length = 0;
  Op op = Op::kRead;
  RequestFlags flags = RequestFlags::kNone;
  SlotState state = SlotState::kDone;
  ErrorCode status = ErrorCode::kOk;  // Of kRejected.
  bool was_posted = false;            // At least once: a lost connection fails it.

  bool is_silent() const { return has(flags, RequestFlags::kUnsignalled); }
  // The NIC reports its success.
  bool is_signalled() const { return (wr.send_flags & IBV_SEND_SIGNALED) != 0; }
};

class SendRing {
 public:
  // Small transfers from and to unregistered memory, inline payloads and the
  // results of atomics go through this much memory of the slot itself.
  static constexpr std::uint32_t kStagingBytes = 256;

  struct Layout {
    std::uint32_t depth;
    std::uint32_t max_pieces;
  };
  SendRing(VerbsEndpoint& owner, Layout layout);
  // How much staging memory set_staging() needs.
  std::size_t staging_bytes() const { return slots_.size() * kStagingBytes; }
  void set_staging(std::byte* memory);

  bool empty() const { return head_ == tail_; }
  bool full() const { return tail_ - head_ == depth_; }
  std::uint64_t head() const { return head_; }
  std::uint64_t tail() const { return tail_; }
  SendSlot& at(std::uint64_t sequence) { return slots_[sequence & (slots_.size() - 1)]; }
  SendSlot& front() { return at(head_); }

  // The next free slot with room for `pieces` entries, or null if there is no
  // room; it belongs to the ring only after commit().
  SendSlot* prepare(std::uint32_t pieces);
  void commit() { ++tail_; }
  void pop() { pieces_head_ = at(head_++).pieces_end; }

 private:
  const std::uint32_t depth_;
  std::vector<SendSlot> slots_;  // A power of two, at least depth_.
  std::vector<ibv_sge> pieces_;
  std::uint64_t head_ = 0;
  std::uint64_t tail_ = 0;
  std::uint64_t pieces_head_ = 0;  // Counts entries since the start, like head_ and tail_.
};

}  // namespace yonder::fabric::verbs
