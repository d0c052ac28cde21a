#include "yonder/remote/lock.h"

#include <algorithm>

namespace yonder::remote {
namespace {

std::unexpected<Error> lost(std::uint64_t token) {
  return fail(ErrorCode::kLeaseLost, "a lock was taken over", static_cast<std::int64_t>(token));
}

}  // namespace

// What a waiter knows of the word, and since when.
struct Lock::Watch {
  std::uint64_t word;
  Instant since;

  void see(std::uint64_t now_word, Instant now) {
    if (now_word == word) return;
    word = now_word;
    since = now;
  }
  bool is_stale(Instant now, Duration lease) const { return LockWord::is_held(word) && now - since > lease; }
  // What to expect in the word: as it is, if it is free or its holder is gone; else
  // what the holder leaves behind.
  std::uint64_t guess(Instant now, Duration lease) const {
    return is_stale(now, lease) ? word : LockWord::freed(word);
  }
};

Lock::Lock(Port port, RemoteAddress word, const LockOptions& options)
    : port_(port), word_(word), lease_(options.lease), backoff_(options.backoff), random_(options.seed) {
  // A watcher must see a word that changes: several looks per lease.
  backoff_.longest = std::min(backoff_.longest, lease_ / 4);
}

Task<Result<Lease>> Lock::async_lock(Deadline deadline) {
  deadline = port_.deadline(deadline);
  Watch watch{seen_, port_.clock().now()};
  Backoff backoff(backoff_, random_);
  for (;;) {
    const Instant asked = port_.clock().now();
    const std::uint64_t guess = watch.guess(asked, lease_);
    const bool takes_over = LockWord::is_held(guess);
    const std::uint64_t desired = LockWord::taken(guess);
    const Result<std::uint64_t> old = co_await port_.async_compare_swap(word_, guess, desired, deadline);
    if (!old) co_return std::unexpected(old.error());
    ++stats_.tries;
    if (*old == guess) {
      seen_ = desired;
      ++stats_.acquired;
      if (takes_over) ++stats_.takeovers;
      co_return Lease(LockWord::token(desired), desired, asked + lease_);
    }
    const Instant now = port_.clock().now();
    if (*old != watch.word) backoff.saw_change();
    watch.see(*old, now);
    seen_ = *old;
    if (deadline.passed(now)) co_return fail(ErrorCode::kDeadlineExceeded, "wait for a remote lock");
    // A word that is free was only guessed wrong: no reason to wait.
    if (LockWord::is_held(*old) && backoff.wants_pause())
      co_await port_.scheduler().sleep_for(backoff.next());
  }
}

Task<Result<std::optional<Lease>>> Lock::async_try_lock(Deadline deadline) {
  std::uint64_t guess = LockWord::freed(seen_);
  // Twice: the first guess may be of an old token.
  for (int i = 0; i < 2; ++i) {
    const Instant asked = port_.clock().now();
    const std::uint64_t desired = LockWord::taken(guess);
    const Result<std::uint64_t> old = co_await port_.async_compare_swap(word_, guess, desired, deadline);
    if (!old) co_return std::unexpected(old.error());
    ++stats_.tries;
    if (*old == guess) {
      seen_ = desired;
      ++stats_.acquired;
      co_return Lease(LockWord::token(desired), desired, asked + lease_);
    }
    seen_ = *old;
    if (LockWord::is_held(*old)) break;
    guess = *old;
  }
  co_return std::optional<Lease>();
}

// Replaces our word by `to`; false if it is not ours any more. A swap whose answer was
// lost may have happened, so a word that still has our token is taken as it is: nobody
// but us changes it while it does.
Task<Result<bool>> Lock::swap(Lease& lease, std::uint64_t to, Deadline deadline) {
  for (int i = 0; i < 2 && LockWord::is_held(lease.word_); ++i) {
    const Result<std::uint64_t> old = co_await port_.async_compare_swap(word_, lease.word_, to, deadline);
    if (!old) co_return std::unexpected(old.error());
    if (*old == lease.word_) {
      lease.word_ = seen_ = to;
      co_return true;
    }
    seen_ = *old;
    if (LockWord::token(*old) != lease.token_ || !LockWord::is_held(*old)) break;
    lease.word_ = *old;
  }
  co_return false;
}

Task<Result<void>> Lock::async_renew(Lease& lease, Deadline deadline) {
  const Instant asked = port_.clock().now();
  const Result<bool> renewed = co_await swap(lease, LockWord::renewed(lease.word_), deadline);
  if (!renewed) co_return std::unexpected(renewed.error());
  if (!*renewed) co_return lost(lease.token_);
  lease.expires_ = asked + lease_;
  co_return Result<void>();
}

Task<Result<void>> Lock::async_unlock(Lease& lease, Deadline deadline) {
  const Result<bool> freed = co_await swap(lease, LockWord::freed(lease.word_), deadline);
  if (!freed) co_return std::unexpected(freed.error());
  if (!*freed) co_return lost(lease.token_);
  co_return Result<void>();
}

Task<Result<std::uint32_t>> Lock::async_fence(const Lease& lease, RemoteAddress word, Deadline deadline) {
  const auto token = static_cast<std::uint32_t>(lease.token_);
  deadline = port_.deadline(deadline);
  const Result<std::uint64_t> loaded = co_await port_.async_load(word, deadline);
  if (!loaded) co_return std::unexpected(loaded.error());
  std::uint64_t seen = *loaded;
  // Ends: each further round means that a holder before us published once more, and
  // each of them can only finish what it has under way.
  for (;;) {
    if (FencedWord::token(seen) == token) co_return FencedWord::value(seen);
    if (FencedWord::is_later(FencedWord::token(seen), token)) co_return lost(lease.token_);
    const std::uint64_t desired = FencedWord::make(token, FencedWord::value(seen));
    const Result<std::uint64_t> old = co_await port_.async_compare_swap(word, seen, desired, deadline);
    if (!old) co_return std::unexpected(old.error());
    if (*old == seen) co_return FencedWord::value(seen);
    seen = *old;
  }
}

Task<Result<void>> Lock::async_publish(const Lease& lease, RemoteAddress word, std::uint32_t expected,
                                       std::uint32_t desired, Deadline deadline) {
  const std::uint64_t from = FencedWord::make(lease.token_, expected);
  const std::uint64_t to = FencedWord::make(lease.token_, desired);
  const Result<std::uint64_t> old = co_await port_.async_compare_swap(word, from, to, deadline);
  if (!old) co_return std::unexpected(old.error());
  if (*old != from) co_return lost(lease.token_);
  co_return Result<void>();
}

}  // namespace yonder::remote
