#pragma once
// Vector IO: many small pieces to or from remote memory in one call, as readv and
// writev are for files.
//
//   remote::VectorIo io(port, pool);
//   std::array<VectorPiece, 3> pieces = {{{LocalPiece::of(a), token.at(0)}, …}};
//   Result<void> done = io.write(pieces);                      // blocks
//   Result<void> done = co_await io.async_read(pieces);        // suspends
//
// Pieces whose remote ranges follow each other form a *run*; a run may leave as one
// request, in the way the strategy says. All requests of a call leave in as few posts
// as the endpoint's depth allows and are awaited together.
//
//   strategy   paper     a run of n pieces leaves as
//   kPack      SP        one request from one buffer, into which they are copied
//   kGather    SGL       one request with n local pieces
//   kDoorbell  doorbell  n requests in one post
//   kAuto      –         whichever of the three the cost model finds cheapest
//   kSingle    –         n requests, each awaited before the next: the baseline
//
// What holds:
//   V1  Any order of pieces is good. Pieces may be empty (skipped), and so may the
//       vector (nothing is sent).
//   V2  Writes that overlap take effect in the given order: where two do, nothing is
//       sorted. Others take effect in any order.
//   V3  What is wrong with the vector itself is said before anything is sent: a piece
//       or a vector beyond the limits (kLengthInvalid), a range that wraps
//       (kOutOfBounds). Detail: the piece's index, or the number of pieces.
//   V4  A failed call has the code of the failed piece that comes first in the vector,
//       and its index as detail. Others may or may not have taken effect; after the
//       first failure nothing more is sent.
//   V5  When the call ends no buffer is used any more.
//
// Requests split at the endpoint's limits and at the pool's buffers; a pool that is
// used up turns packing into gathering. In the steady state nothing is allocated.
//
// Concurrency: the port's thread; calls of its coroutines may overlap.
// Lifetime: port and pool outlive it, tasks do not. The array of pieces and the local
// memory are borrowed until the call, or the awaited task, has ended.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/fabric/types.h"
#include "yonder/remote/buffer_pool.h"
#include "yonder/remote/cost_model.h"
#include "yonder/remote/port.h"

namespace yonder::remote {

namespace internal {
class VectorCall;
}

struct VectorPiece {
  LocalPiece local;
  RemoteAddress remote;
};

enum class Strategy : std::uint8_t { kAuto, kPack, kDoorbell, kGather, kSingle };

struct VectorOptions {
  CostModel costs;                       // for kAuto
  std::uint32_t max_pieces = 64 * 1024;  // of one vector
  // Requests of one call under way; 0: the endpoint's depth.
  std::uint32_t window = 0;
};

// Counted since the beginning.
struct VectorStats {
  std::uint64_t pieces = 0;    // not empty
  std::uint64_t requests = 0;  // that carried them
  std::uint64_t packed = 0;    // … of these, through a pooled buffer
  std::uint64_t gathered = 0;  // … of these, with several local pieces
};

class VectorIo {
 public:
  VectorIo(Port port, BufferPool& pool, const VectorOptions& options = {});
  ~VectorIo();
  VectorIo(const VectorIo&) = delete;
  VectorIo& operator=(const VectorIo&) = delete;

  // Errors: V3, V4.
  Task<Result<void>> async_write(std::span<const VectorPiece> pieces, Strategy strategy = Strategy::kAuto,
                                 Deadline deadline = {}) {
    return move(fabric::Op::kWrite, pieces, strategy, deadline);
  }
  Task<Result<void>> async_read(std::span<const VectorPiece> pieces, Strategy strategy = Strategy::kAuto,
                                Deadline deadline = {}) {
    return move(fabric::Op::kRead, pieces, strategy, deadline);
  }
  Result<void> write(std::span<const VectorPiece> pieces, Strategy strategy = Strategy::kAuto,
                     Deadline deadline = {}) {
    return port_.run(async_write(pieces, strategy, deadline));
  }
  Result<void> read(std::span<const VectorPiece> pieces, Strategy strategy = Strategy::kAuto,
                    Deadline deadline = {}) {
    return port_.run(async_read(pieces, strategy, deadline));
  }

  const Port& port() const { return port_; }
  const CostModel& costs() const { return options_.costs; }
  void set_costs(const CostModel& costs) { options_.costs = costs; }
  const VectorStats& stats() const { return stats_; }

 private:
  using CallPtr = std::unique_ptr<internal::VectorCall>;

  Task<Result<void>> move(fabric::Op op, std::span<const VectorPiece> pieces, Strategy strategy,
                          Deadline deadline);
  Task<Result<void>> move_together(fabric::Op op, std::span<const VectorPiece> pieces, Strategy strategy,
                                   Deadline deadline);
  Task<Result<void>> move_one_by_one(fabric::Op op, std::span<const VectorPiece> pieces, Deadline deadline);
  Result<void> check(std::span<const VectorPiece> pieces) const;

  const Port port_;
  BufferPool& pool_;
  VectorOptions options_;
  VectorStats stats_;
  std::vector<CallPtr> idle_calls_;  // Their memory is kept; as many as ever ran at once.
};

}  // namespace yonder::remote
