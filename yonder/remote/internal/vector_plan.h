#pragma once
// The plan of a vector: which pieces leave together, and in which way. Pure
// arithmetic; nothing is sent here.
//
// Sorts the pieces by remote place if that is allowed (vector_io.h, V2), finds the
// runs, chooses a way for each and cuts it at the limits. Every piece that is not
// empty is in exactly one part; parts are in the order in which they are to be posted.
//
// Concurrency: one thread. Lifetime: a plan is made anew for each vector and keeps its
// memory; it refers to the pieces by index.

#include <cstdint>
#include <span>
#include <vector>

#include "yonder/fabric/types.h"
#include "yonder/remote/cost_model.h"
#include "yonder/remote/vector_io.h"

namespace yonder::remote::internal {

enum class Way : std::uint8_t { kInPlace, kGather, kPack };

// What becomes one request: pieces order()[first … first + count).
struct Part {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  std::uint64_t bytes = 0;
  Way way = Way::kInPlace;
};

struct PlanRules {
  Strategy strategy = Strategy::kAuto;  // not kSingle
  bool is_write = true;
  std::uint32_t max_pieces = 1;      // of one request
  std::uint64_t max_transfer = 0;    // bytes of one request
  std::uint32_t max_pack_bytes = 0;  // bytes of one packed request
  std::uint32_t max_inline = 0;      // bytes of a write that go along with the request
  const CostModel* costs = nullptr;  // for kAuto
};

class VectorPlan {
 public:
  // Requires pieces that VectorIo has checked.
  void make(std::span<const VectorPiece> pieces, const PlanRules& rules);

  std::span<const Part> parts() const { return parts_; }
  std::span<const std::uint32_t> order() const { return order_; }

 private:
  void collect(std::span<const VectorPiece> pieces);
  void sort_if_allowed(std::span<const VectorPiece> pieces, bool is_write);
  void cut_run(std::span<const VectorPiece> pieces, std::uint32_t first, std::uint32_t end,
               const PlanRules& rules);

  std::vector<std::uint32_t> order_;
  std::vector<std::uint32_t> sorted_;  // While it is decided whether to take it.
  std::vector<Part> parts_;
};

// The cheapest way for a run; kInPlace stands for the doorbell.
Way choose(const PlanRules& rules, std::uint32_t pieces, std::uint64_t bytes);

}  // namespace yonder::remote::internal
