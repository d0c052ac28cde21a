#pragma once
// SystemdKeeper: a node's memory in systemd's file descriptor store.
//
// The service manager outlives every version of the daemon, so no process of ours has to:
// it takes descriptors over the notification socket (FDSTORE=1) and gives them to the
// next process of the service as it starts (LISTEN_FDS). The unit must allow it:
// FileDescriptorStoreMax= as many as there are superblocks, and three.
//
// Concurrency: one call at a time. Lifetime: as Keeper.

#include <memory>
#include <string>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/node/keeper.h"

namespace yonder::apps {

class SystemdKeeper final : public node::Keeper {
 public:
  // Takes over what systemd gave us, once per process. kUnsupported: we were not
  // started by systemd, or it takes no notifications.
  static Result<std::unique_ptr<SystemdKeeper>> create();

  Result<std::vector<node::KeptFile>> files() override;
  // Returns when systemd has it. kUnsupported, kDeadlineExceeded.
  Result<void> keep(const std::string& name, const os::Fd& file) override;
  Result<void> forget_all() override;

 private:
  SystemdKeeper() = default;
  Result<void> forget(const std::string& name);

  std::vector<node::KeptFile> files_;  // What it has of ours.
};

}  // namespace yonder::apps
