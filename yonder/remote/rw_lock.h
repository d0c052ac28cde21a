#pragma once
// A reader-writer lock in remote memory, under leases like Lock (lock.h): many readers
// at once, or one writer.
//
//   remote::RwLock lock(port, word, {.lease = 20ms, .seed = my_id});
//   Result<RwLease> shared = co_await lock.async_lock_shared();
//   … read …
//   const Result<void> valid = co_await lock.async_unlock_shared(*shared);   // proves the reads
//
// The word, 0 when it was never used:
//
//   bit  63      32  31      30       29       16  15       0
//       | token    | writer | wanted | renewals  | readers  |
//
//   state                 | lock_shared     | lock            | unchanged for a lease
//   ----------------------+-----------------+-----------------+----------------------------------
//   free                  | readers + 1     | writer, token+1 | –
//   readers               | readers + 1     | wanted, waits   | –
//   readers and wanted    | waits           | waits           | a writer: writer, token + 1
//   wanted, nobody inside | waits           | writer, token+1 | a reader: not wanted, renewals + 1
//   writer (wanted or not)| waits           | waits (wanted)  | who waits: as from free, token + 1
//
// A writer that waits marks the lock as wanted; no further reader enters, so those
// inside drain, and one that died is noticed: nothing changes any more. It is then
// thrown out together with all others, by a token of its own.
//
// What holds:
//   W1  Between a successful lock and its lease's end nobody else is inside, by the
//       argument of lock.h; what a writer commits is fenced by its token as there.
//   W2  unlock_shared() succeeds only if no writer was inside since lock_shared(): the
//       token is the same, and every writer makes a new one. With kLeaseLost what was
//       read may be mixed, and is to be read again.
//   W3  While the word is watched (it has a writer or is wanted) it never returns to a
//       value that it had: leaving only lowers the readers, everything else raises
//       renewals or token. (Renewals wrap after 2^14; watchers look four times a lease.)
// Writers go before readers: readers starve while writers follow each other closely.
//
// Concurrency and lifetime: as Lock.

#include <cstdint>

#include "yonder/base/prng.h"
#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/remote/backoff.h"
#include "yonder/remote/lock.h"
#include "yonder/remote/port.h"

namespace yonder::remote {

class RwLease {
 public:
  // Of a writer: its fencing token. Of a reader: that of the last writer before it.
  std::uint32_t token() const { return token_; }
  Instant expires() const { return expires_; }

 private:
  friend class RwLock;
  RwLease(std::uint32_t token, Instant expires) : token_(token), expires_(expires) {}

  std::uint32_t token_;
  Instant expires_;
};

class RwLock {
 public:
  RwLock(Port port, RemoteAddress word, const LockOptions& options = {});

  // Wait. kDeadlineExceeded; errors of the fabric, after which the lock may be held by
  // nobody who knows: its lease ends that.
  Task<Result<RwLease>> async_lock(Deadline deadline = {}) { return acquire(true, deadline); }
  Task<Result<RwLease>> async_lock_shared(Deadline deadline = {}) { return acquire(false, deadline); }
  // kLeaseLost. See W2 for readers. After an error of the fabric a reader must not
  // unlock again: it may have left already, and would take another's place away.
  Task<Result<void>> async_unlock(const RwLease& lease, Deadline deadline = {});
  Task<Result<void>> async_unlock_shared(const RwLease& lease, Deadline deadline = {});
  Task<Result<void>> async_renew(RwLease& lease, Deadline deadline = {});

  Result<RwLease> lock(Deadline deadline = {}) { return port_.run(async_lock(deadline)); }
  Result<RwLease> lock_shared(Deadline deadline = {}) { return port_.run(async_lock_shared(deadline)); }
  Result<void> unlock(const RwLease& lease, Deadline deadline = {}) {
    return port_.run(async_unlock(lease, deadline));
  }
  Result<void> unlock_shared(const RwLease& lease, Deadline deadline = {}) {
    return port_.run(async_unlock_shared(lease, deadline));
  }
  Result<void> renew(RwLease& lease, Deadline deadline = {}) {
    return port_.run(async_renew(lease, deadline));
  }

  bool is_current(const RwLease& lease) const { return port_.clock().now() < lease.expires(); }
  const LockStats& stats() const { return stats_; }

 private:
  using Step = std::uint64_t (*)(std::uint64_t word);

  Task<Result<RwLease>> acquire(bool exclusive, Deadline deadline);
  // Applies `step` to the word while it has the token and one of the bits of `inside`.
  Task<Result<void>> change(std::uint32_t token, std::uint64_t inside, Step step, Deadline deadline);

  const Port port_;
  const RemoteAddress word_;
  const Duration lease_;
  BackoffOptions backoff_;
  Prng random_;
  std::uint64_t seen_ = 0;
  LockStats stats_;
};

// The layout of the word, for tests and tools.
struct RwWord {
  static constexpr std::uint64_t kReader = 1;
  static constexpr std::uint64_t kReaders = 0xffff;
  static constexpr std::uint64_t kRenewal = 1ULL << 16;
  static constexpr std::uint64_t kRenewals = 0x3fffULL << 16;
  static constexpr std::uint64_t kWanted = 1ULL << 30;
  static constexpr std::uint64_t kWriter = 1ULL << 31;
  static constexpr unsigned kTokenShift = 32;

  static constexpr std::uint32_t token(std::uint64_t word) {
    return static_cast<std::uint32_t>(word >> kTokenShift);
  }
  static constexpr std::uint64_t readers(std::uint64_t word) { return word & kReaders; }
  static constexpr bool has_writer(std::uint64_t word) { return (word & kWriter) != 0; }
  static constexpr bool is_wanted(std::uint64_t word) { return (word & kWanted) != 0; }
  static constexpr std::uint64_t renewed(std::uint64_t word) {
    return (word & ~kRenewals) | ((word + kRenewal) & kRenewals);
  }
  // The next token, nobody inside.
  static constexpr std::uint64_t next(std::uint64_t word) {
    return std::uint64_t{token(word) + 1U} << kTokenShift;
  }
};
static_assert(RwWord::renewed(RwWord::kRenewals | 5) == 5);
static_assert(RwWord::next(0xffffffffULL << 32) == 0);

}  // namespace yonder::remote
