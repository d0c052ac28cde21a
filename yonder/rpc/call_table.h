#pragma once
// The requests a client has outstanding: a fixed table of slots.
//
// A slot is taken when a request is sent and free again when its answer has come
// and the fabric no longer reads its buffer. A call that is given up (deadline)
// only leaves its slot: the server still has the request and may still answer, so
// the slot, like the credit, stays in use until then. The late answer finds a slot
// without a call and is dropped.
//
//   state      | take      | abandon   | answered              | sent
//   -----------+-----------+-----------+-----------------------+----------------
//   free       | busy      | –         | – (unknown id)        | –
//   busy       | –         | abandoned | free, or draining     | busy
//   abandoned  | –         | –         | free, or draining     | abandoned
//   draining   | –         | –         | – (unknown id)        | free
//
// (*draining*: answered while the fabric still holds the request's buffer.)
//
// A request id is the slot's index in the low 16 bits and a sequence number that
// never repeats above, so an answer that is no answer to the slot's request is
// recognised, and finding the call of an answer needs no search.
//
//   I1  free_count() + slots in the other states == size().
//   I2  No two live request ids are equal; none is kGoodbyeId.
//
// Concurrency: one thread. Lifetime: borrows the calls; owns the buffers.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "yonder/fabric/completion_queue.h"
#include "yonder/fabric/types.h"

namespace yonder::rpc {

class CallBase;
class Client;

class CallTable {
 public:
  static constexpr std::uint32_t kMaxSlots = 1u << 16;

  // The Operation is that of the request's send.
  struct Slot : fabric::Operation {
    explicit Slot(Done done) : Operation(done) {}

    Client* client = nullptr;
    CallBase* call = nullptr;
    std::uint64_t request_id = 0;  // 0: no answer is expected.
    std::byte* buffer = nullptr;   // Header and payload of the request.
    fabric::LocalPiece piece;      // What the posted WorkRequest points to.
    bool sending = false;          // The fabric reads `buffer`.
    bool in_doubt = false;         // Its send failed: an answer may never come.
  };

  // `slots` of 1 … kMaxSlots, each with a buffer of `buffer_bytes`.
  CallTable(std::uint32_t slots, std::size_t buffer_bytes, Client& client, fabric::Operation::Done on_sent);
  CallTable(const CallTable&) = delete;
  CallTable& operator=(const CallTable&) = delete;

  bool has_free() const { return !free_.empty(); }
  std::size_t free_count() const { return free_.size(); }
  std::size_t size() const { return slots_.size(); }

  // A free slot with a new request id for `call`. Requires has_free(). The slot
  // that became free last is taken first: its lines are in the cache.
  Slot& take(CallBase& call) {
    const std::uint32_t index = free_.back();
    free_.pop_back();
    Slot& slot = slots_[index];
    slot.call = &call;
    slot.request_id = ++sequence_ << 16 | index;
    slot.in_doubt = false;
    return slot;
  }

  // The slot that expects this answer, or null.
  Slot* find(std::uint64_t request_id) {
    const std::size_t index = request_id & 0xffff;
    if (index >= slots_.size() || slots_[index].request_id != request_id || request_id == 0) return nullptr;
    return &slots_[index];
  }

  // The answer came, or will never come.
  void answered(Slot& slot) {
    slot.call = nullptr;
    slot.request_id = 0;
    if (!slot.sending) release(slot);
  }
  // The fabric is done with the slot's buffer.
  void sent(Slot& slot) {
    slot.sending = false;
    if (slot.request_id == 0) release(slot);
  }

  // All slots, in whatever state.
  std::vector<Slot>& slots() { return slots_; }

  // Aborts unless I1 and I2 hold.
  void check_invariants() const;

 private:
  void release(const Slot& slot) { free_.push_back(static_cast<std::uint32_t>(&slot - slots_.data())); }

  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;  // Indices; capacity slots_.size().
  std::uint64_t sequence_ = 0;
  std::unique_ptr<std::byte[]> buffers_;
};

}  // namespace yonder::rpc
