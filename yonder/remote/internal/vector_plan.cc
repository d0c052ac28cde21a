#include "yonder/remote/internal/vector_plan.h"

#include <algorithm>
#include <tuple>

namespace yonder::remote::internal {
namespace {

std::uint64_t end_of(const VectorPiece& piece) { return piece.remote.offset + piece.local.length; }

bool follows(const VectorPiece& before, const VectorPiece& after) {
  return before.remote.key == after.remote.key && end_of(before) == after.remote.offset;
}

auto place_of(const VectorPiece& piece) { return std::tuple(piece.remote.key.value, piece.remote.offset); }

double ceil_div(std::uint64_t a, std::uint64_t b) { return static_cast<double>((a + b - 1) / b); }

Way way_of(const PlanRules& rules, std::uint32_t pieces, std::uint64_t bytes) {
  switch (rules.strategy) {
    case Strategy::kPack:
      return Way::kPack;
    case Strategy::kGather:
      return Way::kGather;
    case Strategy::kAuto:
      return choose(rules, pieces, bytes);
    default:
      return Way::kInPlace;
  }
}

}  // namespace

Way choose(const PlanRules& rules, std::uint32_t pieces, std::uint64_t bytes) {
  if (pieces == 1) return Way::kInPlace;
  const CostModel& costs = *rules.costs;
  const double n = pieces;
  const auto b = static_cast<double>(bytes);
  const double doorbell = n * costs.request_ns;
  const double gather = ceil_div(pieces, rules.max_pieces) * costs.request_ns + n * costs.gather_piece_ns +
                        b * costs.gather_byte_ns;
  const double pack = ceil_div(bytes, rules.max_pack_bytes) * costs.request_ns + n * costs.pack_piece_ns +
                      b * costs.pack_byte_ns;
  // Gathering is for the NIC, so what is gathered does not go along (VectorCall).
  const bool packed_goes_along = rules.is_write && bytes <= rules.max_inline;
  if (pack <= gather || packed_goes_along) return pack < doorbell ? Way::kPack : Way::kInPlace;
  return gather < doorbell ? Way::kGather : Way::kInPlace;
}

void VectorPlan::collect(std::span<const VectorPiece> pieces) {
  order_.clear();
  for (std::uint32_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].local.length != 0) order_.push_back(i);
  }
}

// Reads may overlap as they like: sorting does not change what they see of each other.
void VectorPlan::sort_if_allowed(std::span<const VectorPiece> pieces, bool is_write) {
  const auto before = [&](std::uint32_t a, std::uint32_t b) {
    return place_of(pieces[a]) < place_of(pieces[b]);
  };
  if (std::is_sorted(order_.begin(), order_.end(), before)) return;
  sorted_.assign(order_.begin(), order_.end());
  std::sort(sorted_.begin(), sorted_.end(), before);
  if (is_write) {
    // Neighbours suffice: the first overlap in sorted order is one of neighbours.
    const auto overlap = [&](std::uint32_t a, std::uint32_t b) {
      return pieces[a].remote.key == pieces[b].remote.key && end_of(pieces[a]) > pieces[b].remote.offset;
    };
    if (std::adjacent_find(sorted_.begin(), sorted_.end(), overlap) != sorted_.end()) return;
  }
  order_.swap(sorted_);
}

void VectorPlan::cut_run(std::span<const VectorPiece> pieces, std::uint32_t first, std::uint32_t end,
                         const PlanRules& rules) {
  const std::uint64_t bytes = end_of(pieces[order_[end - 1]]) - pieces[order_[first]].remote.offset;
  const Way way = way_of(rules, end - first, bytes);
  // Nobody gathers in packed requests, so they have no bound on pieces.
  const std::uint32_t max_count = way == Way::kInPlace  ? 1
                                  : way == Way::kGather ? rules.max_pieces
                                                        : UINT32_MAX;
  const std::uint64_t max_bytes = way == Way::kPack
                                      ? std::min<std::uint64_t>(rules.max_pack_bytes, rules.max_transfer)
                                      : rules.max_transfer;
  Part part{.first = first};
  for (std::uint32_t i = first; i < end; ++i) {
    const std::uint64_t length = pieces[order_[i]].local.length;
    if (part.count != 0 && (part.count == max_count || part.bytes + length > max_bytes)) {
      parts_.push_back(part);
      part = {.first = i};
    }
    ++part.count;
    part.bytes += length;
    // One piece alone needs neither a copy nor a list.
    part.way = part.count == 1 ? Way::kInPlace : way;
  }
  parts_.push_back(part);
}

void VectorPlan::make(std::span<const VectorPiece> pieces, const PlanRules& rules) {
  parts_.clear();
  collect(pieces);
  if (rules.strategy != Strategy::kDoorbell) sort_if_allowed(pieces, rules.is_write);
  const auto count = static_cast<std::uint32_t>(order_.size());
  for (std::uint32_t first = 0; first < count;) {
    std::uint32_t end = first + 1;
    while (end < count && follows(pieces[order_[end - 1]], pieces[order_[end]])) ++end;
    cut_run(pieces, first, end, rules);
    first = end;
  }
}

}  // namespace yonder::remote::internal
