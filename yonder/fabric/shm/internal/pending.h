#pragma once
// Requests that could not be executed when they were posted.
//
// A request waits here while its region is unknown, its memory is served by the
// target, its receiver is not ready, a ring is full, or the endpoint is
// reconnecting. The queue is strictly first in, first out: a request behind
// another one waits too (guarantee E1), and two positions walk over it:
//
//   head ≤ issue ≤ tail
//   [head, issue)  handed to the target's service thread, answers outstanding
//   [issue, tail)  not started
//
// An entry whose deadline passes is completed at once and stays as a husk until
// the positions have passed it, so a late answer finds where it belongs.
//
// Concurrency: the endpoint's thread. Lifetime: owns copies of the piece arrays
// and of inline payloads. Memory is allocated by the first use, never per request.

#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "yonder/fabric/types.h"

namespace yonder::fabric::shm {

struct Pending {
  WorkRequest request;           // `local` points into the queue's own storage
  std::int64_t deadline_ns = 0;  // 0: the default, counted from the first look at the clock
  ErrorCode status = ErrorCode::kOk;
  bool completed = false;         // its completion was made; a husk
  bool was_stale = false;         // the region was known and has changed
  bool written = false;           // kWriteImm: the bytes are there, the notice is not
  bool restart = false;           // served: rebound between two parts
  std::uint32_t outstanding = 0;  // served: parts without answer
  std::uint64_t issued = 0;       // served: bytes asked for
  std::uint64_t state = 0;        // served: region state of the first part
  std::uint64_t value = 0;        // served atomics: the old word
};

class PendingQueue {
 public:
  PendingQueue(std::uint32_t capacity, std::uint32_t max_inline)
      : capacity_(std::bit_ceil(capacity)), max_inline_(max_inline) {}

  std::uint32_t size() const { return tail_ - head_; }
  std::uint32_t room() const { return capacity_ - size(); }
  bool empty() const { return head_ == tail_; }
  bool all_issued() const { return issue_ == tail_; }
  bool none_issued() const { return issue_ == head_; }

  // Requires room() > 0. `status` other than kOk: to be completed with it.
  void push(const WorkRequest& request, ErrorCode status);

  Pending& next_to_issue() { return at(issue_); }
  std::uint32_t issue_position() const { return issue_; }
  void mark_issued() { ++issue_; }
  // Positions are running numbers; valid for entries in the queue.
  Pending& at(std::uint32_t position) { return entries_[position & (capacity_ - 1)]; }

  // Drops husks and finished entries from the front.
  void retire() {
    while (head_ != issue_ && at(head_).completed && at(head_).outstanding == 0) ++head_;
  }
  template <typename Visit>
  void for_each(Visit visit) {
    for (std::uint32_t i = head_; i != tail_; ++i) visit(at(i));
  }
  template <typename Visit>
  void for_each(Visit visit) const {
    for (std::uint32_t i = head_; i != tail_; ++i) visit(entries_[i & (capacity_ - 1)]);
  }
  void clear() { head_ = issue_ = tail_; }

 private:
  void allocate();

  const std::uint32_t capacity_;
  const std::uint32_t max_inline_;
  std::uint32_t head_ = 0;
  std::uint32_t issue_ = 0;
  std::uint32_t tail_ = 0;
  std::vector<Pending> entries_;
  std::vector<LocalPiece> pieces_;  // kMaxPieces per entry
  std::vector<std::byte> inlined_;  // max_inline per entry
};

// Copies between scattered local memory and one flat piece, starting `offset`
// bytes into the scattered one.
void gather(std::byte* to, std::span<const LocalPiece> pieces, std::uint64_t offset, std::uint64_t bytes);
void scatter(std::span<const LocalPiece> pieces, std::uint64_t offset, const std::byte* from,
             std::uint64_t bytes);

}  // namespace yonder::fabric::shm
