#pragma once
// A directory for other processes, over rpc: DirectoryService answers, RemoteDirectory
// asks. directory.h has the rules.
//
//   one process:  LocalDirectory directory(clock, {});
//                 serve_directory(server, directory);          // before server.start()
//   the others:   auto directory = RemoteDirectory::connect(fabric, "tcp://host:7500");
//
// Concurrency: any thread. Lifetime: `directory` outlives the server; the fabric outlives
// the RemoteDirectory.

#include <memory>
#include <string>

#include "yonder/fabric/fabric.h"
#include "yonder/rpc/server.h"
#include "yonder/segment/directory.h"

namespace yonder::segment {

namespace internal {
class PeerLine;
}

// Adds the methods of a directory to a server. Its bounds must admit 8 KiB answers.
void serve_directory(rpc::Server& server, Directory& directory);

class RemoteDirectory final : public Directory {
 public:
  // Errors of rpc::Client::connect.
  static Result<std::unique_ptr<RemoteDirectory>> connect(fabric::Fabric& fabric, const std::string& address);
  ~RemoteDirectory() override;

  Result<ProcessId> join(std::string_view address, Deadline deadline) override;
  Result<void> renew(ProcessId process, Deadline deadline) override;
  Result<void> leave(ProcessId process, Deadline deadline) override;
  Result<std::string> address_of(ProcessId process, Deadline deadline) override;
  Result<SegmentRecord> allocate(ProcessId owner, std::uint64_t bytes, Deadline deadline) override;
  Result<void> deallocate(ProcessId owner, SegmentId segment, Deadline deadline) override;
  Result<SegmentRecord> find(SegmentId segment, Deadline deadline) override;
  Result<std::vector<SegmentRecord>> list(SegmentId from, Deadline deadline) override;
  Result<SegmentRecord> begin_move(SegmentId segment, ProcessId from, ProcessId to,
                                   Deadline deadline) override;
  Result<SegmentRecord> commit_move(const Move& move, Deadline deadline) override;
  Result<void> cancel_move(SegmentId segment, ProcessId by, Deadline deadline) override;

 private:
  explicit RemoteDirectory(std::unique_ptr<internal::PeerLine> line);
  std::unique_ptr<internal::PeerLine> line_;
};

}  // namespace yonder::segment
