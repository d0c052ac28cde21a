#pragma once
// Locks and sequencers by request: what Lock and Sequencer do one-sidedly, done by a
// server's CPU instead. For comparison (paper 002, figure 10), and for targets whose
// words must be changed by their own CPU as well.
//
//   remote::AtomicsService service(clock, {.locks = 64, .sequencers = 4});
//   service.attach(server);                                    // before server.start()
//   remote::RpcSequencer tickets(client, scheduler, 0);
//   remote::RpcLock lock(client, scheduler, 7, {.seed = my_id});
//
// A lock is held under a lease of the server's clock: a try that comes later takes it
// over, with the next token. Waiting is spinning by requests, with backoff, like the
// remote lock's; a request is refused with kNotFound for a number beyond the tables.
//
// Concurrency: the service from any thread of the server; the rest like rpc::Client.
// Lifetime: the service outlives its server; client and scheduler outlive locks and
// sequencers, and those their tasks.

#include <cstdint>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/fabric/scheduler.h"
#include "yonder/remote/backoff.h"
#include "yonder/remote/port.h"
#include "yonder/rpc/client.h"
#include "yonder/rpc/server.h"
#include "yonder/sync/annotations.h"
#include "yonder/sync/mutex.h"

namespace yonder::remote {

struct AtomicsServiceOptions {
  std::uint32_t locks = 64;
  std::uint32_t sequencers = 64;
};

class AtomicsService {
 public:
  // `clock`: of the leases; outlives the service.
  explicit AtomicsService(const Clock& clock, const AtomicsServiceOptions& options = {});
  // Registers the methods.
  void attach(rpc::Server& server);

 private:
  struct LockState {
    std::uint64_t token = 0;
    Instant expires;  // Held until then, unless is_held is false.
    bool is_held = false;
  };
  Result<std::uint64_t> try_lock(std::uint32_t lock, Duration lease);
  Result<void> unlock(std::uint32_t lock, std::uint64_t token);
  Result<std::uint64_t> take(std::uint32_t sequencer, std::uint64_t count);

  const Clock& clock_;
  sync::Mutex mutex_;
  std::vector<LockState> locks_ YONDER_GUARDED_BY(mutex_);
  std::vector<std::uint64_t> sequencers_ YONDER_GUARDED_BY(mutex_);
};

struct RpcLockOptions {
  Duration lease = std::chrono::milliseconds(20);
  BackoffOptions backoff;
  std::uint64_t seed = 1;
};

class RpcLock {
 public:
  // `client` was made with `scheduler`.
  RpcLock(rpc::Client& client, fabric::Scheduler& scheduler, std::uint32_t lock,
          const RpcLockOptions& options = {});

  // The fencing token. kDeadlineExceeded, kNotFound; errors of rpc.
  Task<Result<std::uint64_t>> async_lock(Deadline deadline = {});
  // kLeaseLost: somebody took over.
  Task<Result<void>> async_unlock(std::uint64_t token, Deadline deadline = {});
  Result<std::uint64_t> lock(Deadline deadline = {}) { return scheduler_.block_on(async_lock(deadline)); }
  Result<void> unlock(std::uint64_t token, Deadline deadline = {}) {
    return scheduler_.block_on(async_unlock(token, deadline));
  }

 private:
  rpc::Client& client_;
  fabric::Scheduler& scheduler_;
  const std::uint32_t lock_;
  const RpcLockOptions options_;
  Prng random_;
};

class RpcSequencer {
 public:
  RpcSequencer(rpc::Client& client, fabric::Scheduler& scheduler, std::uint32_t sequencer)
      : client_(client), scheduler_(scheduler), sequencer_(sequencer) {}

  // The first of `count` numbers. kInvalidArgument: 0; kNotFound; errors of rpc.
  Task<Result<std::uint64_t>> async_reserve(std::uint64_t count, Deadline deadline = {});
  Task<Result<std::uint64_t>> async_next(Deadline deadline = {}) { return async_reserve(1, deadline); }
  Result<std::uint64_t> next(Deadline deadline = {}) { return scheduler_.block_on(async_next(deadline)); }
  Result<std::uint64_t> reserve(std::uint64_t count, Deadline deadline = {}) {
    return scheduler_.block_on(async_reserve(count, deadline));
  }

 private:
  rpc::Client& client_;
  fabric::Scheduler& scheduler_;
  const std::uint32_t sequencer_;
};

}  // namespace yonder::remote
