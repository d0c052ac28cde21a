#pragma once
// A lock in remote memory: one word, changed by compare-and-swap, held under a lease.
//
//   remote::Lock lock(port, word, {.lease = 20ms, .seed = my_id});
//   Result<Lease> lease = co_await lock.async_lock();
//   … read, prepare, …
//   co_await lock.async_publish(*lease, commit_word, value);    // the fenced commit
//   co_await lock.async_unlock(*lease);
//
// The word, 0 when it was never used:
//
//   bit  63                16 15          1  0
//       | token             | renewals    | held |
//
//   state           | lock                  | renew         | unlock     | unchanged for a lease
//   ----------------+-----------------------+---------------+------------+----------------------
//   free (t)        | held (t+1, 0)         | kLeaseLost    | kLeaseLost | –
//   held (t, r)     | waits; watches        | held (t, r+1) | free (t)   | a waiter: held (t+1, 0)
//
// Every change is a compare-and-swap of exactly the word that was seen. A try expects
// the word that the holder it saw will leave behind, free (t): one request both looks
// and takes. Between tries it backs off (backoff.h).
//
// A holder that died is found by those who wait: each watches the word by its own
// clock, and who has seen the same word for longer than the lease takes the lock over.
// No clocks are compared between hosts, they must only run about equally fast. A
// holder that lives renews (renew() before half of the lease is gone); renewing
// changes the word, so that watchers start anew.
//
// ---- Why a late write cannot do harm (fencing)
//
// A holder can be paused, or its request held up in the network, for longer than any
// lease. It then believes that it holds the lock, or has a write under way that lands
// after somebody took over. Nothing can call that write back, so it must be made
// harmless: what a critical section changes becomes visible by one compare-and-swap of
// a *fenced word*, which carries the token of the holder that wrote it:
//
//   bit  63          32 31           0
//       | low half of  | value       |
//       | the token    | (an index)  |
//
// fence(lease, word) replaces (t', v) by (t, v) for our t and returns v; publish(lease,
// word, v') replaces exactly (t, v) by (t, v'). Then, for holders A with token a and B
// with token b > a that took over from it:
//   F1  Tokens are given out once, in growing order: each comes from a successful swap
//       of a word that holds the token before it.
//   F2  A publish of A expects a word with token a. After B's fence the word has token
//       b, and tokens in it never shrink (fence refuses to lower one: kLeaseLost). So
//       after B's fence no publish of A succeeds, however late it lands, and A is told:
//       kLeaseLost.
//   F3  A publish of A that landed before B's fence is seen by it: B reads v' and goes
//       on from there, as if A had finished in time.
// So the published values form one sequence, in which each was made from the one before
// by the holder of its token: mutual exclusion of effects, whatever happens to time.
// Bytes that are no fenced word (the record that `value` names) are written to a place
// nobody else uses before the publish: copy on write. Writing in place under a lease is
// only as safe as the lease is long. Low halves of tokens repeat after 2^32
// acquisitions; a request that is late by that many is not considered.
//
// Concurrency: the port's thread; coroutines may share a Lock, each has its Lease.
// Lifetime: as the port's; tasks end before the lock. A lease is a value: dropping it
// leaves the lock held until the lease is over.

#include <cstdint>
#include <optional>

#include "yonder/base/prng.h"
#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/remote/backoff.h"
#include "yonder/remote/port.h"

namespace yonder::remote {

struct LockOptions {
  Duration lease = std::chrono::milliseconds(20);
  BackoffOptions backoff;  // The longest pause is cut to a quarter of the lease.
  // Of the jitter; different for each waiter, or they move in step.
  std::uint64_t seed = 1;
};

// The proof that the lock was ours, and for how long it surely is.
class Lease {
 public:
  std::uint64_t token() const { return token_; }
  // Until then nobody takes over: lease from when the last request left us.
  Instant expires() const { return expires_; }

 private:
  friend class Lock;
  Lease(std::uint64_t token, std::uint64_t word, Instant expires)
      : token_(token), word_(word), expires_(expires) {}

  std::uint64_t token_;
  std::uint64_t word_;  // as we left it
  Instant expires_;
};

struct LockStats {
  std::uint64_t acquired = 0;
  std::uint64_t tries = 0;      // compare-and-swaps to get there
  std::uint64_t takeovers = 0;  // of these acquired, from a holder that did not renew
};

class Lock {
 public:
  Lock(Port port, RemoteAddress word, const LockOptions& options = {});

  // Waits. kDeadlineExceeded; errors of the fabric. After an error the lock may be
  // held by nobody who knows: its lease ends that.
  Task<Result<Lease>> async_lock(Deadline deadline = {});
  // Nothing if somebody holds it.
  Task<Result<std::optional<Lease>>> async_try_lock(Deadline deadline = {});
  // A new lease from now on. kLeaseLost.
  Task<Result<void>> async_renew(Lease& lease, Deadline deadline = {});
  // kLeaseLost: somebody took over meanwhile; what was not published is void.
  Task<Result<void>> async_unlock(Lease& lease, Deadline deadline = {});

  // Fenced words; kLeaseLost. Every holder fences a word before it publishes there.
  Task<Result<std::uint32_t>> async_fence(const Lease& lease, RemoteAddress word, Deadline deadline = {});
  Task<Result<void>> async_publish(const Lease& lease, RemoteAddress word, std::uint32_t expected,
                                   std::uint32_t desired, Deadline deadline = {});

  Result<Lease> lock(Deadline deadline = {}) { return port_.run(async_lock(deadline)); }
  Result<std::optional<Lease>> try_lock(Deadline deadline = {}) {
    return port_.run(async_try_lock(deadline));
  }
  Result<void> renew(Lease& lease, Deadline deadline = {}) { return port_.run(async_renew(lease, deadline)); }
  Result<void> unlock(Lease& lease, Deadline deadline = {}) {
    return port_.run(async_unlock(lease, deadline));
  }
  Result<std::uint32_t> fence(const Lease& lease, RemoteAddress word, Deadline deadline = {}) {
    return port_.run(async_fence(lease, word, deadline));
  }
  Result<void> publish(const Lease& lease, RemoteAddress word, std::uint32_t expected, std::uint32_t desired,
                       Deadline deadline = {}) {
    return port_.run(async_publish(lease, word, expected, desired, deadline));
  }

  // By our clock nobody can have taken over yet.
  bool is_current(const Lease& lease) const { return port_.clock().now() < lease.expires(); }
  const LockStats& stats() const { return stats_; }

 private:
  struct Watch;
  Task<Result<bool>> swap(Lease& lease, std::uint64_t to, Deadline deadline);

  const Port port_;
  const RemoteAddress word_;
  const Duration lease_;
  BackoffOptions backoff_;
  Prng random_;
  std::uint64_t seen_ = 0;  // The word when we saw it last: the best guess for the first try.
  LockStats stats_;
};

// The layout of the lock's word and of a fenced word, for tests and tools.
struct LockWord {
  static constexpr std::uint64_t kHeld = 1;
  static constexpr std::uint64_t kRenewal = 2;
  static constexpr std::uint64_t kRenewals = 0xfffe;
  static constexpr unsigned kTokenShift = 16;

  static constexpr std::uint64_t token(std::uint64_t word) { return word >> kTokenShift; }
  static constexpr bool is_held(std::uint64_t word) { return (word & kHeld) != 0; }
  static constexpr std::uint64_t held(std::uint64_t token) { return token << kTokenShift | kHeld; }
  // What the holder of this word leaves behind.
  static constexpr std::uint64_t freed(std::uint64_t word) { return word & ~(kHeld | kRenewals); }
  // Taken from its holder, or from nobody.
  static constexpr std::uint64_t taken(std::uint64_t word) { return held(token(word) + 1); }
  static constexpr std::uint64_t renewed(std::uint64_t word) {
    return (word & ~kRenewals) | ((word + kRenewal) & kRenewals);
  }
};
static_assert(LockWord::taken(0) == ((1U << 16) | 1U));
static_assert(LockWord::renewed(LockWord::held(7) | LockWord::kRenewals) == LockWord::held(7));

struct FencedWord {
  static constexpr std::uint64_t make(std::uint64_t token, std::uint32_t value) {
    return token << 32 | value;
  }
  static constexpr std::uint32_t token(std::uint64_t word) { return static_cast<std::uint32_t>(word >> 32); }
  static constexpr std::uint32_t value(std::uint64_t word) { return static_cast<std::uint32_t>(word); }
  // Whether `a` was given out after `b`; right while they are less than 2^31 apart.
  static constexpr bool is_later(std::uint32_t a, std::uint32_t b) {
    return static_cast<std::int32_t>(a - b) > 0;
  }
};

}  // namespace yonder::remote
