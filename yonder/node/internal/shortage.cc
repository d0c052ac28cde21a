#include "yonder/node/internal/shortage.h"

#include <utility>

#include "yonder/base/check.h"
#include "yonder/node/frame_store.h"

namespace yonder::node::internal {

Shortage::Shortage(Heap& heap, const Clock& clock, Options options)
    : heap_(heap), clock_(clock), options_(std::move(options)) {}

Shortage::~Shortage() { YONDER_CHECK(size() == 0, "calls that wait are ended before the node goes"); }

ErrorCode Shortage::park(std::unique_ptr<WaitingCall>& call, Deadline deadline) {
  {
    sync::LockGuard lock(mutex_);
    if (closed_) return ErrorCode::kStopping;
    if (size() >= options_.max_calls) return ErrorCode::kOverloaded;
    call->deadline_ = deadline;
    // relaxed: a round that begins at this moment was seen from its beginning, or one
    // more is waited for.
    call->parked_in_ = rounds_begun_.load(std::memory_order_relaxed);
    calls_.push_back(std::move(call));
    size_.fetch_add(1, std::memory_order_release);
  }
  if (options_.on_park) options_.on_park();
  return ErrorCode::kOk;
}

void Shortage::step(const SliceLimits& limits) {
  if (!in_round_) {
    try_calls();  // Somebody may have freed what they need, and threads still keep it.
    if (size() == 0) return;
    begin_round();
    try_calls();
    if (size() == 0) {
      in_round_ = false;
      return;
    }
  }
  const Progress progress = look_for_memory(limits);
  try_calls();
  if (progress != Progress::kMore) judge_calls(progress);
  // Who comes next begins with a round of its own.
  if (progress != Progress::kMore || size() == 0) in_round_ = false;
}

// ---------------------------------------------------------------- looking for memory

void Shortage::begin_round() {
  in_round_ = true;
  gained_ = false;
  class_ = 0;
  active_before_ = heap_.frames().active_bytes();
  patience_ = Deadline::after(clock_, kPatience);
  rounds_begun_.fetch_add(1, std::memory_order_relaxed);
  // What threads keep, and frames that are empty or retired; and single slots, before
  // compaction takes their frames.
  heap_.reclaim();
  heap_.offer_leftovers();
}

// As Compactor::relieve(), a slice at a time.
Shortage::Progress Shortage::look_for_memory(const SliceLimits& limits) {
  Compactor& compactor = heap_.compactor();
  const std::size_t classes = heap_.classes().count();
  while (class_ < classes && compactor.waste_bytes(static_cast<std::uint8_t>(class_)) == 0) ++class_;
  if (class_ == classes) return end_round();
  switch (compactor.slice(static_cast<std::uint8_t>(class_), limits)) {
    case SliceOutcome::kDone:
      gained_ = true;
      break;
    case SliceOutcome::kMore:
      break;
    case SliceOutcome::kLater:
      if (patience_.passed(clock_.now())) ++class_;
      break;
    case SliceOutcome::kBusy:
      gained_ = true;  // Somebody else is at it.
      ++class_;
      break;
    case SliceOutcome::kNothing:
      ++class_;
      break;
  }
  return Progress::kMore;
}

Shortage::Progress Shortage::end_round() {
  // Retired frames count as used until slow readers have left them.
  const bool is_all_back = heap_.reclaim();
  heap_.offer_leftovers();  // Compaction lists none of its frames that is nearly full.
  if (heap_.frames().active_bytes() < active_before_) gained_ = true;
  if (!gained_ && !is_all_back && !patience_.passed(clock_.now())) return Progress::kMore;
  if (!gained_ && options_.on_shortage) gained_ = options_.on_shortage();
  return gained_ ? Progress::kGained : Progress::kNothing;
}

// ---------------------------------------------------------------- the calls

template <typename Visit>
void Shortage::visit_calls(Visit&& visit) {
  std::vector<std::unique_ptr<WaitingCall>> calls;
  {
    sync::LockGuard lock(mutex_);
    calls.swap(calls_);
  }
  std::size_t left = 0;
  for (auto& call : calls) {
    if (!visit(*call)) calls[left++] = std::move(call);
  }
  size_.fetch_sub(calls.size() - left, std::memory_order_release);
  calls.resize(left);
  sync::LockGuard lock(mutex_);
  for (auto& call : calls_) calls.push_back(std::move(call));
  calls_ = std::move(calls);
}

void Shortage::try_calls() {
  const Instant now = clock_.now();
  visit_calls([&](WaitingCall& call) {
    if (call.is_abandoned()) return true;
    if (!call.deadline_.passed(now)) return call.try_answer();
    call.end(ErrorCode::kDeadlineExceeded);
    return true;
  });
}

void Shortage::judge_calls(Progress progress) {
  const std::uint64_t round = rounds_begun_.load(std::memory_order_relaxed);
  visit_calls([&](WaitingCall& call) {
    if (call.parked_in_ >= round) return false;  // It has not seen all of it.
    if (progress == Progress::kGained && ++call.rounds_ < kRounds) return false;
    call.end(ErrorCode::kOutOfMemory);
    return true;
  });
}

void Shortage::close() {
  {
    sync::LockGuard lock(mutex_);
    closed_ = true;
  }
  visit_calls([&](WaitingCall& call) {
    if (!call.is_abandoned()) call.end(ErrorCode::kStopping);
    return true;
  });
}

}  // namespace yonder::node::internal
