#include "yonder/remote/rw_lock.h"

#include <algorithm>
#include <optional>

namespace yonder::remote {
namespace {

// What somebody who wants in does next: which word to make of the one that was seen,
// and whether that lets it in.
struct Move {
  std::uint64_t desired;
  bool enters;
};

// Nothing: wait. `stale`: the word was watched for a lease and did not change.
std::optional<Move> move_of(std::uint64_t word, bool exclusive, bool stale) {
  if (RwWord::has_writer(word)) {
    // The mark that others left is theirs to keep.
    const std::uint64_t next = RwWord::next(word) | (word & RwWord::kWanted);
    if (stale) return Move{exclusive ? next | RwWord::kWriter : RwWord::next(word) | RwWord::kReader, true};
    if (exclusive && !RwWord::is_wanted(word)) return Move{word | RwWord::kWanted, false};
    return std::nullopt;
  }
  if (exclusive) {
    if (RwWord::readers(word) == 0 || (RwWord::is_wanted(word) && stale)) {
      return Move{RwWord::next(word) | RwWord::kWriter, true};
    }
    if (!RwWord::is_wanted(word)) return Move{word | RwWord::kWanted, false};
    return std::nullopt;
  }
  if (!RwWord::is_wanted(word)) {
    if (RwWord::readers(word) == RwWord::kReaders) return std::nullopt;
    return Move{word + RwWord::kReader, true};
  }
  // Who wanted it is gone, and nobody is inside.
  if (stale && RwWord::readers(word) == 0) {
    return Move{(RwWord::renewed(word) & ~RwWord::kWanted) + RwWord::kReader, true};
  }
  return std::nullopt;
}

bool is_watched(std::uint64_t word) { return RwWord::has_writer(word) || RwWord::is_wanted(word); }

}  // namespace

RwLock::RwLock(Port port, RemoteAddress word, const LockOptions& options)
    : port_(port), word_(word), lease_(options.lease), backoff_(options.backoff), random_(options.seed) {
  backoff_.longest = std::min(backoff_.longest, lease_ / 4);
}

Task<Result<RwLease>> RwLock::acquire(bool exclusive, Deadline deadline) {
  deadline = port_.deadline(deadline);
  Backoff backoff(backoff_, random_);
  std::uint64_t word = seen_;
  Instant since = port_.clock().now();
  for (;;) {
    const Instant asked = port_.clock().now();
    const bool stale = is_watched(word) && asked - since > lease_;
    const std::optional<Move> move = move_of(word, exclusive, stale);
    // A swap of the word by itself looks and changes nothing.
    const Move step = move.value_or(Move{word, false});
    const Result<std::uint64_t> old = co_await port_.async_compare_swap(word_, word, step.desired, deadline);
    if (!old) co_return std::unexpected(old.error());
    ++stats_.tries;
    const Instant now = port_.clock().now();
    const bool changed = *old == word && step.desired != word;
    seen_ = changed ? step.desired : *old;
    if (changed && step.enters) {
      ++stats_.acquired;
      if (stale) ++stats_.takeovers;
      co_return RwLease(RwWord::token(step.desired), asked + lease_);
    }
    if (seen_ != word) {
      since = now;
      backoff.saw_change();
    }
    const bool was_wrong = *old != word;
    word = seen_;
    if (deadline.passed(now)) co_return fail(ErrorCode::kDeadlineExceeded, "wait for a remote lock");
    // A wrong guess is corrected at once, if the word now lets us in.
    if (was_wrong && move_of(word, exclusive, false).value_or(Move{0, false}).enters) continue;
    if (backoff.wants_pause()) co_await port_.scheduler().sleep_for(backoff.next());
  }
}

// Ends: each further round means that somebody else changed the word, and who wants in
// changes it at most once while we are inside.
Task<Result<void>> RwLock::change(std::uint32_t token, std::uint64_t inside, Step step, Deadline deadline) {
  deadline = port_.deadline(deadline);
  std::uint64_t word = seen_;
  for (;;) {
    const bool is_ours = RwWord::token(word) == token && (word & inside) != 0;
    const std::uint64_t desired = is_ours ? step(word) : word;
    const Result<std::uint64_t> old = co_await port_.async_compare_swap(word_, word, desired, deadline);
    if (!old) co_return std::unexpected(old.error());
    if (*old == word) {
      seen_ = desired;
      if (is_ours) co_return Result<void>();
      co_return fail(ErrorCode::kLeaseLost, "a lock was taken over", token);
    }
    seen_ = word = *old;
  }
}

Task<Result<void>> RwLock::async_unlock(const RwLease& lease, Deadline deadline) {
  // Whoever wants it next keeps its mark; renewals of ours are forgotten.
  const Step leave = [](std::uint64_t word) { return word & ~(RwWord::kWriter | RwWord::kRenewals); };
  return change(lease.token_, RwWord::kWriter, leave, deadline);
}

Task<Result<void>> RwLock::async_unlock_shared(const RwLease& lease, Deadline deadline) {
  const Step leave = [](std::uint64_t word) { return word - RwWord::kReader; };
  return change(lease.token_, RwWord::kReaders, leave, deadline);
}

Task<Result<void>> RwLock::async_renew(RwLease& lease, Deadline deadline) {
  const Instant asked = port_.clock().now();
  const Result<void> renewed =
      co_await change(lease.token_, RwWord::kWriter | RwWord::kReaders, &RwWord::renewed, deadline);
  if (renewed) lease.expires_ = asked + lease_;
  co_return renewed;
}

}  // namespace yonder::remote
