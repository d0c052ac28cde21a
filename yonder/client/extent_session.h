#pragma once
// ExtentSession: a program's way to the extents of one memory node.
//
//   auto session = client::ExtentSession::connect(fabric, {.address = "tcp://node-1:7400"});
//   fabric::RegionToken table = (*session)->open_or_create("orders/table", 1 << 30).value();
//   (*session)->endpoint().write(piece, table.at(0)).wait();      // one-sided
//
// An extent is memory of the node that clients read, write and do atomics in as they
// like, found by its name (node/extents.h). The session asks the node for it by a
// request; after that its endpoint is all that is needed.
//
// Every call comes blocking and as a coroutine. Errors of all calls: kInvalidArgument (a
// name that is none, no bytes), kDeadlineExceeded, kConnectionLost, kStopping,
// kServerReplaced (another life of the node answers: its extents are gone), kClosed.
//
// Concurrency: one thread at a time, the one that uses the queue. Blocking calls must not
// be made inside a coroutine of the same scheduler.
// Lifetime: fabric (and queue and scheduler, if they are given) outlive the session;
// tasks end before it.

#include <cstdint>
#include <memory>
#include <string>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/fabric/fabric.h"
#include "yonder/fabric/scheduler.h"
#include "yonder/fabric/task.h"
#include "yonder/rpc/client.h"

namespace yonder::client {

struct ExtentSessionOptions {
  std::string address;
  fabric::Identity identity;
  Duration timeout = std::chrono::seconds(5);  // of calls that give no deadline
  std::uint32_t depth = 128;                   // one-sided requests outstanding
  // To share with other sessions of the thread; null: the session's own.
  fabric::CompletionQueue* queue = nullptr;
  fabric::Scheduler* scheduler = nullptr;  // Of that queue.
};

class ExtentSession {
 public:
  // Errors of rpc::Client::connect; kInvalidArgument for a scheduler without its queue.
  static Result<std::unique_ptr<ExtentSession>> connect(fabric::Fabric& fabric,
                                                        const ExtentSessionOptions& options);
  ~ExtentSession();
  ExtentSession(const ExtentSession&) = delete;
  ExtentSession& operator=(const ExtentSession&) = delete;

  // A new extent, zeroed, of at least `bytes`. kAlreadyExists, kOutOfMemory (the node's
  // limit), kResourceExhausted.
  Result<fabric::RegionToken> create(std::string name, std::uint64_t bytes, Deadline deadline = {});
  // kNotFound.
  Result<fabric::RegionToken> open(std::string name, Deadline deadline = {});
  // Whoever comes first makes it; its length is then the first one's.
  Result<fabric::RegionToken> open_or_create(std::string name, std::uint64_t bytes, Deadline deadline = {});
  // For everybody: what others do in it from now on fails. kNotFound.
  Result<void> remove(std::string name, Deadline deadline = {});

  fabric::Task<Result<fabric::RegionToken>> async_create(std::string name, std::uint64_t bytes,
                                                         Deadline deadline = {});
  fabric::Task<Result<fabric::RegionToken>> async_open(std::string name, Deadline deadline = {});
  fabric::Task<Result<fabric::RegionToken>> async_open_or_create(std::string name, std::uint64_t bytes,
                                                                 Deadline deadline = {});
  fabric::Task<Result<void>> async_remove(std::string name, Deadline deadline = {});

  // On which one-sided requests are posted, `depth` at a time.
  fabric::Endpoint& endpoint() { return rpc_->endpoint(); }
  fabric::Scheduler& scheduler() { return *scheduler_; }

 private:
  ExtentSession() = default;

  std::unique_ptr<fabric::CompletionQueue> own_queue_;
  std::unique_ptr<fabric::Scheduler> own_scheduler_;
  fabric::Scheduler* scheduler_ = nullptr;
  rpc::ClientPtr rpc_;
};

}  // namespace yonder::client
