#pragma once
// A directory whose answer to a commit is slow on its way: the target can hear of it first.
//
// Concurrency: as the directory behind it. Lifetime: that one outlives it.

#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "yonder/segment/directory.h"

namespace yonder::segment::suite {

class LateCommits final : public Directory {
 public:
  LateCommits(Directory& behind, Duration delay) : behind_(behind), delay_(delay) {}

  Result<ProcessId> join(std::string_view address, Deadline deadline) override {
    return behind_.join(address, deadline);
  }
  Result<void> renew(ProcessId process, Deadline deadline) override {
    return behind_.renew(process, deadline);
  }
  Result<void> leave(ProcessId process, Deadline deadline) override {
    return behind_.leave(process, deadline);
  }
  Result<std::string> address_of(ProcessId process, Deadline deadline) override {
    return behind_.address_of(process, deadline);
  }
  Result<SegmentRecord> allocate(ProcessId owner, std::uint64_t bytes, Deadline deadline) override {
    return behind_.allocate(owner, bytes, deadline);
  }
  Result<void> deallocate(ProcessId owner, SegmentId segment, Deadline deadline) override {
    return behind_.deallocate(owner, segment, deadline);
  }
  Result<SegmentRecord> find(SegmentId segment, Deadline deadline) override {
    return behind_.find(segment, deadline);
  }
  Result<std::vector<SegmentRecord>> list(SegmentId from, Deadline deadline) override {
    return behind_.list(from, deadline);
  }
  Result<SegmentRecord> begin_move(SegmentId segment, ProcessId from, ProcessId to,
                                   Deadline deadline) override {
    return behind_.begin_move(segment, from, to, deadline);
  }
  Result<SegmentRecord> commit_move(const Move& move, Deadline deadline) override {
    Result<SegmentRecord> committed = behind_.commit_move(move, deadline);
    std::this_thread::sleep_for(delay_);
    return committed;
  }
  Result<void> cancel_move(SegmentId segment, ProcessId by, Deadline deadline) override {
    return behind_.cancel_move(segment, by, deadline);
  }

 private:
  Directory& behind_;
  const Duration delay_;
};

}  // namespace yonder::segment::suite
