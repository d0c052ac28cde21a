#include "yonder/remote/chain.h"

#include <utility>

#include "yonder/base/check.h"

namespace yonder::remote {

using fabric::Op;
using fabric::RequestFlags;
using fabric::WorkRequest;

Chain::Link& Chain::add(const WorkRequest& request) {
  YONDER_CHECK(size_ < kMaxLinks, "a chain has room for its requests");
  Link& link = links_[size_++];
  link.chain = this;
  link.request = request;
  link.request.flags = RequestFlags::kOperation;
  link.request.user_data = reinterpret_cast<std::uint64_t>(static_cast<fabric::Operation*>(&link));
  return link;
}

void Chain::read(LocalPiece into, RemoteAddress from) {
  if (into.length == 0) return;
  Link& link = add({.op = Op::kRead, .remote = from});
  link.piece = into;
  link.request.local = std::span(&link.piece, 1);
}

void Chain::write(LocalPiece from, RemoteAddress to) {
  if (from.length == 0) return;
  Link& link = add({.op = Op::kWrite, .remote = to});
  link.piece = from;
  link.request.local = std::span(&link.piece, 1);
}

void Chain::write(std::span<const LocalPiece> from, RemoteAddress to) {
  if (!from.empty()) add({.op = Op::kWrite, .local = from, .remote = to});
}

void Chain::compare_swap(RemoteAddress word, std::uint64_t expected, std::uint64_t desired) {
  add({.op = Op::kCompareSwap, .remote = word, .operand = desired, .compare = expected});
}

void Chain::fetch_add(RemoteAddress word, std::uint64_t add_value) {
  add({.op = Op::kFetchAdd, .remote = word, .operand = add_value});
}

void Chain::on_done(fabric::Operation& self, const fabric::Completion& completion) {
  Link& link = static_cast<Link&>(self);
  Chain& chain = *link.chain;
  link.completion = completion;
  if (--chain.under_way_ != 0 || !chain.waiter_) return;
  std::exchange(chain.waiter_, nullptr).resume();
}

std::size_t Chain::post(std::size_t first) {
  std::array<WorkRequest, kMaxLinks> requests;
  for (std::size_t i = first; i < size_; ++i) requests[i] = links_[i].request;
  // Before the call: a provider may complete inside it.
  under_way_ += size_ - first;
  const Result<std::size_t> posted = port_.endpoint().post(std::span(requests).subspan(first, size_ - first));
  if (posted) {
    under_way_ -= size_ - first - *posted;
    return first + *posted;
  }
  under_way_ -= size_ - first;
  if (posted.error() == ErrorCode::kQueueFull) return first;
  for (std::size_t i = first; i < size_; ++i) links_[i].completion.status = posted.error().code();
  return size_;
}

Task<Result<void>> Chain::run(Deadline deadline) {
  deadline = port_.deadline(deadline);
  for (std::size_t i = 0; i < size_; ++i) links_[i].request.deadline = deadline;
  for (std::size_t next = post(0); next < size_; next = post(next)) {
    if (deadline.passed(port_.clock().now())) {
      for (; next < size_; ++next) links_[next].completion.status = ErrorCode::kDeadlineExceeded;
      break;
    }
    co_await port_.scheduler().sleep_for(Port::kPauseWhenFull);
  }
  co_await AllEnded{*this};
  for (std::size_t i = 0; i < size_; ++i) {
    if (status(i) != ErrorCode::kOk) co_return fail(status(i), "one of several requests in a row", i);
  }
  co_return Result<void>();
}

}  // namespace yonder::remote
