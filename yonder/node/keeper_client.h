#pragma once
// KeeperClient: a node's side of yonder-keeper.
//
//   YONDER_TRY(keeper, KeeperClient::connect({.path = "/run/yonder/keeper", .node = "node-1"}));
//   Heap::create(clock, {.keeper = keeper.get()});
//
// It remembers what it handed over, so that a keeper that was restarted gets all of it
// again (refresh()); the objects are at risk only while there is no keeper.
//
// Concurrency: any thread; one mutex. Lifetime: outlives the heaps that use it.

#include <memory>
#include <string>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/node/keeper.h"
#include "yonder/os/socket.h"
#include "yonder/sync/mutex.h"

namespace yonder::node {

class KeeperClient final : public Keeper {
 public:
  struct Options {
    std::string path;                            // Of the keeper's socket.
    std::string node;                            // Under which name; at most 63 bytes.
    Duration timeout = std::chrono::seconds(5);  // Of each call.
  };
  // kInvalidArgument (a name that is empty or too long), kConnectionRefused and
  // kNotFound (no keeper there), kAlreadyExists (another process has this node's lease).
  static Result<std::unique_ptr<KeeperClient>> connect(const Options& options);

  // All: kConnectionLost (the keeper has ended), kDeadlineExceeded,
  // kResourceExhausted (it holds as much as it may), kAlreadyExists as above.
  Result<std::vector<KeptFile>> files() override;
  Result<void> keep(const std::string& name, const os::Fd& file) override;
  Result<void> forget_all() override;
  Result<void> refresh() override;

 private:
  explicit KeeperClient(Options options) : options_(std::move(options)) {}
  struct Exchange;

  Deadline deadline() const;
  Result<void> reconnect() YONDER_REQUIRES(mutex_);
  Result<void> hand_over(const std::string& name, const os::Fd& file) YONDER_REQUIRES(mutex_);
  Result<KeptFile> ask(const Exchange& exchange) YONDER_REQUIRES(mutex_);
  bool is_connected() const YONDER_REQUIRES(mutex_);

  const Options options_;
  sync::Mutex mutex_;
  os::Socket socket_ YONDER_GUARDED_BY(mutex_);
  std::vector<KeptFile> kept_ YONDER_GUARDED_BY(mutex_);  // Handed over, or found.
};

}  // namespace yonder::node
