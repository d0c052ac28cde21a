#include "yonder/remote/internal/vector_call.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace yonder::remote::internal {

using fabric::Op;

void VectorCall::prepare(Op op, std::span<const VectorPiece> pieces, const PlanRules& rules,
                         Deadline deadline, std::uint32_t window) {
  op_ = op;
  deadline_ = deadline;
  pieces_ = pieces;
  max_pieces_ = rules.max_pieces;
  max_inline_ = rules.max_inline;
  window_ = window;
  status_ = ErrorCode::kOk;
  failed_piece_ = UINT32_MAX;
  plan_.make(pieces, rules);
  local_.clear();
  carriers_.clear();
  requests_.clear();
  // A request carries at least one piece and has at most one local piece for each, so
  // none of these grows below, and what points into them stays valid.
  const std::size_t bound = plan_.order().size();
  local_.reserve(bound);
  carriers_.reserve(bound);
  requests_.reserve(bound);
  for (const Part& part : plan_.parts()) add_part(part);
  rest_ = requests_;
}

void VectorCall::add_part(const Part& part) {
  if (part.way == Way::kPack) {
    if (std::byte* const to = try_reserve(part.bytes)) {
      if (op_ == Op::kWrite) pack(part, to);
      local_.push_back({to, static_cast<std::uint32_t>(part.bytes), pool_.key()});
      return add_request(part, to, 1);
    }
  }
  add_gathered(part);
}

// In as many requests as the limit on pieces asks for: a part that was to be packed
// may have more.
void VectorCall::add_gathered(const Part& part) {
  for (std::uint32_t done = 0; done < part.count;) {
    Part cut{.first = part.first + done, .count = std::min(part.count - done, max_pieces_)};
    for (std::uint32_t i = 0; i < cut.count; ++i) local_.push_back(piece(cut.first + i).local);
    add_request(cut, nullptr, cut.count);
    done += cut.count;
  }
}

void VectorCall::add_request(const Part& part, std::byte* packed, std::uint32_t local_pieces) {
  Carrier& carrier = carriers_.emplace_back(*this, part.first, part.count, packed);
  const std::span<const LocalPiece> local = std::span(local_).last(local_pieces);
  // A small write in one piece goes along with the request: the NIC need not fetch it. Several
  // pieces are for the NIC to gather; copying them here would be packing by another name.
  const bool goes_along = op_ == Op::kWrite && local_pieces == 1 && local.front().length <= max_inline_;
  requests_.push_back(
      {.op = op_,
       .flags = goes_along ? fabric::RequestFlags::kOperation | fabric::RequestFlags::kInline
                           : fabric::RequestFlags::kOperation,
       .user_data = reinterpret_cast<std::uint64_t>(static_cast<fabric::Operation*>(&carrier)),
       .local = local,
       .remote = piece(part.first).remote,
       .deadline = deadline_});
}

std::byte* VectorCall::try_reserve(std::uint64_t bytes) {
  if (buffers_.empty() || buffer_used_ + bytes > pool_.buffer_bytes()) {
    std::optional<PooledBuffer> buffer = pool_.try_take();
    if (!buffer) return nullptr;
    buffers_.push_back(*std::move(buffer));
    buffer_used_ = 0;
  }
  std::byte* const to = buffers_.back().bytes().data() + buffer_used_;
  // The next part starts on a line of its own.
  buffer_used_ = std::min<std::size_t>((buffer_used_ + bytes + 63) / 64 * 64, pool_.buffer_bytes());
  return to;
}

void VectorCall::pack(const Part& part, std::byte* to) {
  for (std::uint32_t i = 0; i < part.count; ++i) {
    const LocalPiece& from = piece(part.first + i).local;
    std::memcpy(to, from.data, from.length);
    to += from.length;
  }
  endpoint_.queue().charge_copy(part.count, part.bytes);
}

void VectorCall::unpack(const Carrier& carrier) {
  const std::byte* from = carrier.packed;
  for (std::uint32_t i = 0; i < carrier.count; ++i) {
    const LocalPiece& to = piece(carrier.first + i).local;
    std::memcpy(to.data, from, to.length);
    from += to.length;
  }
  endpoint_.queue().charge_copy(carrier.count, static_cast<std::uint64_t>(from - carrier.packed));
}

void VectorCall::post_rest() {
  const std::size_t room = window_ - std::min(window_, outstanding_);
  const std::size_t count = std::min(rest_.size(), room);
  if (count == 0 || status_ != ErrorCode::kOk) return;
  const Result<std::size_t> posted = endpoint_.post(rest_.first(count));
  if (!posted) {
    if (posted.error() != ErrorCode::kQueueFull) give_up(posted.error().code());
    return;
  }
  outstanding_ += *posted;
  rest_ = rest_.subspan(*posted);
}

bool VectorCall::take_off(std::coroutine_handle<> waiter) {
  post_rest();
  if (outstanding_ == 0) return false;
  waiter_ = waiter;
  return true;
}

void VectorCall::on_done(fabric::Operation& self, const fabric::Completion& completion) {
  const auto& carrier = static_cast<Carrier&>(self);
  VectorCall& call = *carrier.call;
  --call.outstanding_;
  if (!completion.ok()) call.fail_pieces(carrier, completion.status);
  if (call.outstanding_ <= call.window_ / 2) call.post_rest();
  if (call.outstanding_ == 0) std::exchange(call.waiter_, nullptr).resume();
}

void VectorCall::fail_pieces(const Carrier& carrier, ErrorCode status) {
  const auto members = plan_.order().subspan(carrier.first, carrier.count);
  const std::uint32_t first = *std::min_element(members.begin(), members.end());
  if (first >= failed_piece_) return;
  failed_piece_ = first;
  status_ = status;
}

void VectorCall::give_up(ErrorCode status) {
  if (rest_.empty() || status_ != ErrorCode::kOk) return;
  fail_pieces(carriers_[carriers_.size() - rest_.size()], status);
}

Result<void> VectorCall::finish() {
  if (op_ == Op::kRead && status_ == ErrorCode::kOk) {
    for (const Carrier& carrier : carriers_) {
      if (carrier.packed != nullptr) unpack(carrier);
    }
  }
  buffers_.clear();
  if (status_ == ErrorCode::kOk) return {};
  return fail(status_, op_ == Op::kRead ? "read a vector" : "write a vector", failed_piece_);
}

void VectorCall::count_in(VectorStats& stats) const {
  stats.pieces += plan_.order().size();
  stats.requests += requests_.size();
  for (const Carrier& carrier : carriers_) {
    if (carrier.packed != nullptr) {
      ++stats.packed;
    } else if (carrier.count > 1) {
      ++stats.gathered;
    }
  }
}

}  // namespace yonder::remote::internal
