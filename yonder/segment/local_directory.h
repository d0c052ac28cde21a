#pragma once
// LocalDirectory: the directory in the memory of one process (directory.h has its rules).
//
// For a single host, for tests, and behind a DirectoryService for other processes. It
// dies with its process: then nobody can allocate or move, and everybody keeps what they
// own.
//
// Concurrency: any thread; one lock, held for microseconds.

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>

#include "yonder/segment/directory.h"
#include "yonder/sync/mutex.h"

namespace yonder::segment {

struct LocalDirectoryOptions {
  std::uint32_t slots = 16 * 1024;  // of the arena; not more than the smallest has
  Duration lease = std::chrono::seconds(10);
  std::uint32_t max_processes = 1024;  // alive
};

class LocalDirectory final : public Directory {
 public:
  LocalDirectory(const Clock& clock, const LocalDirectoryOptions& options);

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

  // D1, and that every live segment's owner is alive. For tests.
  bool check_invariants();

 private:
  struct Process {
    std::string address;
    Instant lease_end;
  };

  // All need the lock.
  void bury_dead(const sync::LockGuard&) YONDER_REQUIRES(mutex_);
  void bury(ProcessId process) YONDER_REQUIRES(mutex_);
  Result<void> check_alive(ProcessId process) YONDER_REQUIRES(mutex_);
  Result<SegmentRecord*> find_live(SegmentId segment) YONDER_REQUIRES(mutex_);
  Result<SlotRange> take_slots(std::uint32_t count) YONDER_REQUIRES(mutex_);
  void free_slots(SlotRange range) YONDER_REQUIRES(mutex_);

  const Clock& clock_;
  const LocalDirectoryOptions options_;
  sync::Mutex mutex_;
  std::uint64_t next_process_ YONDER_GUARDED_BY(mutex_) = 1;
  std::uint64_t next_segment_ YONDER_GUARDED_BY(mutex_) = 1;
  std::unordered_map<ProcessId, Process> processes_ YONDER_GUARDED_BY(mutex_);  // alive
  std::map<SegmentId, SegmentRecord> segments_ YONDER_GUARDED_BY(mutex_);
  std::map<std::uint32_t, std::uint32_t> free_ YONDER_GUARDED_BY(mutex_);  // first slot → count; joined
};

}  // namespace yonder::segment
