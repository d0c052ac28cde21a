#pragma once
// One call of VectorIo under way: its plan, its buffers, its requests.
//
//   call.prepare(op, pieces, …);      // plan, buffers, copies
//   while (!call.finished()) { co_await call.flight(); … }
//   call.finish();                    // copies, buffers given back
//
// Concurrency: the port's thread. Lifetime: reused for later calls, with its memory;
// not moved while requests are under way, because they point to it.

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/fabric/endpoint.h"
#include "yonder/remote/buffer_pool.h"
#include "yonder/remote/internal/vector_plan.h"
#include "yonder/remote/vector_io.h"

namespace yonder::remote::internal {

class VectorCall {
 public:
  VectorCall(fabric::Endpoint& endpoint, BufferPool& pool) : endpoint_(endpoint), pool_(pool) {}
  VectorCall(const VectorCall&) = delete;
  VectorCall& operator=(const VectorCall&) = delete;

  void prepare(fabric::Op op, std::span<const VectorPiece> pieces, const PlanRules& rules, Deadline deadline,
               std::uint32_t window);

  // Posts as much as fits and resumes when nothing of it is under way any more, at
  // once if the endpoint had no place. Requests that follow are posted meanwhile, in
  // halves of the window: each post is worth its doorbell.
  struct Flight {
    VectorCall& call;
    bool await_ready() const noexcept { return false; }
    bool await_suspend(std::coroutine_handle<> waiter) { return call.take_off(waiter); }
    void await_resume() const noexcept {}
  };
  Flight flight() { return {*this}; }

  // Everything was posted and has ended, or something failed and nothing is under way.
  bool finished() const { return outstanding_ == 0 && (rest_.empty() || status_ != ErrorCode::kOk); }
  // Gives up what was not posted.
  void give_up(ErrorCode status);
  // Scatters what was read, gives the buffers back, and says how it went (V4).
  Result<void> finish();
  void count_in(VectorStats& stats) const;

 private:
  // A request under way, and the pieces it carries.
  struct Carrier : fabric::Operation {
    Carrier(VectorCall& owner, std::uint32_t first_piece, std::uint32_t piece_count, std::byte* packed_at)
        : Operation(&on_done), call(&owner), first(first_piece), count(piece_count), packed(packed_at) {}
    VectorCall* call;
    std::uint32_t first;  // in the plan's order
    std::uint32_t count;
    std::byte* packed;  // null: not through a buffer
  };

  const VectorPiece& piece(std::uint32_t ordered) const { return pieces_[plan_.order()[ordered]]; }
  void add_part(const Part& part);
  void add_request(const Part& part, std::byte* packed, std::uint32_t local_pieces);
  void add_gathered(const Part& part);
  std::byte* try_reserve(std::uint64_t bytes);
  void pack(const Part& part, std::byte* to);
  void unpack(const Carrier& carrier);
  void post_rest();
  bool take_off(std::coroutine_handle<> waiter);
  static void on_done(fabric::Operation& self, const fabric::Completion& completion);
  void fail_pieces(const Carrier& carrier, ErrorCode status);

  fabric::Endpoint& endpoint_;
  BufferPool& pool_;
  VectorPlan plan_;

  // Of the call.
  fabric::Op op_ = fabric::Op::kRead;
  Deadline deadline_;
  std::span<const VectorPiece> pieces_;
  std::uint32_t max_pieces_ = 1;
  std::uint32_t max_inline_ = 0;  // bytes
  std::size_t window_ = 1;
  std::vector<LocalPiece> local_;              // What the requests' spans point to: reserved before.
  std::vector<Carrier> carriers_;              // The same.
  std::vector<fabric::WorkRequest> requests_;  // One for each carrier.
  std::vector<PooledBuffer> buffers_;
  std::size_t buffer_used_ = 0;  // of the last buffer
  std::span<const fabric::WorkRequest> rest_;
  std::size_t outstanding_ = 0;
  std::coroutine_handle<> waiter_;
  ErrorCode status_ = ErrorCode::kOk;
  std::uint32_t failed_piece_ = UINT32_MAX;
};

}  // namespace yonder::remote::internal
