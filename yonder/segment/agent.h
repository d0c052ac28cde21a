#pragma once
// Agent: a process's part in moving segments (RAMP, paper 004, Figure 2).
//
//   source                                          target
//   auto segment = agent->allocate(256_MiB);
//   …plain loads and stores in segment->memory…
//   agent->connect(segment->id, target, {});        (consents; makes room)
//   …still plain loads and stores…
//   agent->transfer(segment->id);                   auto got = agent->receive(deadline);
//   (an access now ends in a message and SIGSEGV)   …plain loads and stores in got->memory…
//
// Ownership moves first, in tens of microseconds whatever the size; data follows by
// one-sided reads: when a page is touched, when the application asks for a range
// (pull), and by a prefetcher on its own connection. When all has arrived the migration is
// closed by itself; the source's memory is then free.
//
//   segment here | connect     | transfer     | cancel    | pull      | close         | deallocate
//   -------------+-------------+--------------+-----------+-----------+---------------+-----------
//   owned        | offered     | kNotFound    | nothing   | nothing   | nothing       | gone
//   offered      | kAlready-   | leaving, or  | owned     | nothing   | kAlreadyExists| kAlready-
//                | Exists      | owned        |           |           |               | Exists
//   leaving      | kNotOwner   | kNotOwner    | kNotOwner | kNotOwner | kNotOwner     | kNotOwner
//   in doubt     | as leaving, until the directory can be asked: then owned or leaving
//   expected     | (the target's side of an offer; not the application's yet: kNotFound)
//   arriving     | kAlready-   | kNotFound    | nothing   | pulls     | waits for the | gone
//                | Exists      |              |           |           | rest → owned  |
//
//   S1  At every moment at most one process can access a segment: the source is fenced
//       before the directory is asked to commit, and the target accesses it only after
//       the commit.
//   S2  Whoever the directory calls the owner has, or gets, the segment: a target that
//       does not hear of its transfer asks the directory.
//   S3  A source that does not know whether its commit was executed stays fenced and asks
//       until it knows.
//   S4  The source keeps every byte until the target has it or the target is dead
//       (with release_early: every byte that has not arrived).
//   S5  With keep_until_complete a third process has every byte from before the commit until
//       the target has it; a target whose source does not answer reads there.
//
// Concurrency: all functions from any thread, for different segments; for one segment
// one at a time, except pull(), missing() and migrations(). on_received and consent are
// called on a thread of the agent: they must be quick, and must not call the agent for
// the same segment.
// Lifetime: fabric, arena and directory outlive it. The destructor leaves the directory;
// segments that are still owned are then lost, their memory is unmapped.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/fabric/fabric.h"
#include "yonder/fabric/scheduler.h"
#include "yonder/fabric/task.h"
#include "yonder/segment/arena.h"
#include "yonder/segment/directory.h"
#include "yonder/segment/ids.h"

namespace yonder::segment {

// A segment that this process owns.
struct Segment {
  SegmentId id;
  std::span<std::byte> memory;
  Epoch epoch;
};

// What a target is asked.
struct Offered {
  SegmentId id;
  ProcessId source;
  std::uint64_t bytes = 0;
};

struct ReceiveOptions {
  // A touch of a page that has not arrived pulls it; else only pull() and the prefetcher do.
  bool pull_on_touch = true;
  bool prefetch = true;
  std::uint64_t prefetch_bytes_per_second = 0;  // 0: no limit
  // Allocates memory for the segment's data before the transfer, so that no page waits
  // for it afterwards.
  bool make_room = true;
  // How long a touch waits for its source before the page counts as lost.
  Duration source_timeout = std::chrono::seconds(5);
};

struct AgentOptions {
  // Where other agents call, "tcp://0.0.0.0:0" …, and where targets read; the same provider.
  // Their options (TLS: fabric/tcp) are not told to others and also hold where we dial.
  std::string address = "shm:";
  std::string data_address = "shm:";
  // Whether an offered segment is welcome; none: all are.
  std::function<bool(const Offered&)> consent;
  // Called at the moment a segment is ours; none: receive() hands them out.
  std::function<void(const Segment&)> on_received;
  ReceiveOptions receive;
  Duration timeout = std::chrono::seconds(5);  // of calls that give no deadline
  // How often the lease at the directory is renewed, and unclear matters are asked about.
  Duration tick = std::chrono::milliseconds(100);
};

struct ConnectOptions {
  // The source gives memory back while data arrives at the target, not only at the end.
  bool release_early = false;
  // A third process: it gets a copy of all bytes before the transfer and keeps it until the
  // target has everything, so that the source's death after the transfer loses nothing. The
  // price is a pause that grows with the data: the copy is made between fence and commit.
  // 0: nobody.
  ProcessId keep_until_complete;
};

struct Transferred {
  Instant fenced_at;  // from when on the source could not access it
  Epoch epoch;        // of the target's ownership
};

enum class MigrationState : std::uint8_t { kOffered, kLeaving, kInDoubt, kExpected, kArriving, kLost };

struct Migration {
  SegmentId id;
  MigrationState state = MigrationState::kOffered;
  ProcessId peer;
  std::uint64_t bytes = 0;
  std::uint64_t bytes_left = 0;  // to arrive; at a source: as far as it was told
  bool counts_holes = false;     // in bytes_left: at a target, until the source has said where it has data
  std::uint64_t faults = 0;      // touches that were served
};

class Agent {
 public:
  // Errors of fabric, rpc and directory.
  static Result<std::unique_ptr<Agent>> create(fabric::Fabric& fabric, Arena& arena, Directory& directory,
                                               AgentOptions options);
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  ProcessId id() const;

  // Zeroed memory; `bytes` is rounded up to pages. kInvalidArgument,
  // kResourceExhausted (addresses), kOutOfMemory.
  Result<Segment> allocate(Bytes bytes, Deadline deadline = {});
  // kNotFound, kNotOwner; kAlreadyExists while it is offered.
  Result<void> deallocate(SegmentId segment, Deadline deadline = {});

  // Offers the segment and waits until the target is ready for it. The source goes on
  // using it. kDeclined; kNotFound (no such segment or process), kNotOwner,
  // kAlreadyExists, kConnectionLost, kDeadlineExceeded; kInvalidArgument: source or target
  // cannot be the third process that keeps it.
  Result<void> connect(SegmentId segment, ProcessId target, ConnectOptions options = {},
                       Deadline deadline = {});
  // Takes the offer back.
  Result<void> cancel(SegmentId segment, Deadline deadline = {});
  // Hands the segment over. When it returns without error the target is its owner. If the
  // directory or the target refuses, or who is to keep a copy cannot, the segment is still
  // ours and usable. kInDoubt as
  // kDeadlineExceeded or kConnectionLost: the directory did not answer, S3.
  // `last_use` is called when everybody who has a part is awake, right before the fence: what
  // must end its use of the segment does it there and not before, so that it pauses no
  // longer than the segment does. An error of it ends the transfer: the segment is still ours.
  Result<Transferred> transfer(SegmentId segment, Deadline deadline = {},
                               const std::function<Result<void>()>& last_use = {});

  // The next segment that was transferred to this process. kDeadlineExceeded.
  Result<Segment> receive(Deadline deadline);
  // Returns when the range is here. kSegmentLost: its source is dead; missing() tells.
  Result<void> pull(SegmentId segment, ByteRange range, Deadline deadline = {});
  // Pulls what is missing and ends the migration. kSegmentLost.
  Result<void> close(SegmentId segment, Deadline deadline = {});
  // What has not arrived; kNotFound, kNotOwner.
  Result<std::vector<ByteRange>> missing(SegmentId segment) const;
  // Gives memory of a segment that holds nothing of worth back to the system; it reads as
  // zeros. Whole pages inside the range only.
  Result<void> release(SegmentId segment, ByteRange range);

  // All that are under way here, as source and as target.
  std::vector<Migration> migrations() const;

  // The same for coroutines: the work is done by a thread of the agent, `scheduler`'s
  // thread goes on with others. One such call per segment at a time.
  fabric::Task<Result<void>> async_connect(fabric::Scheduler& scheduler, SegmentId segment, ProcessId target,
                                           ConnectOptions options = {}, Deadline deadline = {});
  fabric::Task<Result<Transferred>> async_transfer(fabric::Scheduler& scheduler, SegmentId segment,
                                                   Deadline deadline = {});
  fabric::Task<Result<Segment>> async_receive(fabric::Scheduler& scheduler, Deadline deadline);
  fabric::Task<Result<void>> async_pull(fabric::Scheduler& scheduler, SegmentId segment, ByteRange range,
                                        Deadline deadline = {});
  fabric::Task<Result<void>> async_close(fabric::Scheduler& scheduler, SegmentId segment,
                                         Deadline deadline = {});

 private:
  class Core;
  explicit Agent(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace yonder::segment
