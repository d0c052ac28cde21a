#pragma once
// A counter in remote memory, and a barrier made of one.
//
//   remote::Counter counter(port, word);
//   Result<std::uint64_t> before = co_await counter.async_add(3);
//
//   remote::Barrier barrier(port, word, {.parties = 8});
//   Result<void> all_here = co_await barrier.async_arrive();
//
// The barrier's word counts arrivals and never goes back, so it can be used again and
// again without being reset: arrival number n belongs to round n / parties and waits
// until the word reaches the end of that round. A party that died is missed by the
// others at their deadline (kDeadlineExceeded); such a barrier is broken, because it
// cannot tell who arrived: begin a new one on another word.
//
// Concurrency: the port's thread. Lifetime: as the port's; tasks end before them.

#include <cstdint>

#include "yonder/base/prng.h"
#include "yonder/base/result.h"
#include "yonder/remote/backoff.h"
#include "yonder/remote/port.h"

namespace yonder::remote {

class Counter {
 public:
  Counter(Port port, RemoteAddress word) : port_(port), word_(word) {}

  // The value before; wraps at 2^64.
  Task<Result<std::uint64_t>> async_add(std::uint64_t amount, Deadline deadline = {}) const {
    return port_.async_fetch_add(word_, amount, deadline);
  }
  Task<Result<std::uint64_t>> async_load(Deadline deadline = {}) const {
    return port_.async_load(word_, deadline);
  }
  Result<std::uint64_t> add(std::uint64_t amount, Deadline deadline = {}) const {
    return port_.run(async_add(amount, deadline));
  }
  Result<std::uint64_t> load(Deadline deadline = {}) const { return port_.run(async_load(deadline)); }

 private:
  Port port_;
  RemoteAddress word_;
};

struct BarrierOptions {
  std::uint64_t parties = 1;  // at least 1 (checked)
  BackoffOptions backoff;     // between two looks
  std::uint64_t seed = 1;
};

class Barrier {
 public:
  Barrier(Port port, RemoteAddress word, const BarrierOptions& options);

  // Arrives, and returns when all parties of the round have. kDeadlineExceeded: somebody
  // is missing; we count as arrived.
  Task<Result<void>> async_arrive(Deadline deadline = {});
  Result<void> arrive(Deadline deadline = {}) { return port_.run(async_arrive(deadline)); }

 private:
  const Port port_;
  const Counter arrivals_;
  const std::uint64_t parties_;
  const BackoffOptions backoff_;
  Prng random_;
};

}  // namespace yonder::remote
