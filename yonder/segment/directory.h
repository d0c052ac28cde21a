#pragma once
// Directory: who takes part, which slots of the arena belong to which segment, and who
// owns it. It is the arbiter of ownership: a segment has at every moment exactly one
// owner here, or is lost, and a change of owner is one step of the directory.
//
// Implementations: LocalDirectory (local_directory.h) keeps everything in memory of one
// process; RemoteDirectory (remote_directory.h) asks one over rpc. A cluster's directory
// plugs in here.
//
// A move, from the directory's point of view:
//
//   state of a segment    | begin_move | commit_move     | cancel_move | owner dies | target dies
//   ----------------------+------------+-----------------+-------------+------------+------------
//   owned by A            | A → B      | committed       | nothing     | lost       | –
//                         |            | before: repeats |             |            |
//                         |            | else kNotFound  |             |            |
//   owned by A, moving    | kAlready-  | owned by B,     | owned by A  | lost       | owned by A
//   to B                  | Exists     | epoch + 1       |             |            |
//   lost                  | kSegment-  | kSegmentLost    | nothing     | –          | –
//                         | Lost       |                 |             |            |
//
//   D1  Slots of two segments never overlap; they are free again after deallocate().
//   D2  A segment's epoch grows by one with each commit; a commit that was executed and
//       not heard of can be repeated and answers the same.
//   D3  Process and segment ids are never used twice.
//   D4  A process that has not renewed its lease is dead for ever: its segments are lost,
//       its calls are refused with kStaleEpoch. It joins anew under another id.
//
// Errors of all functions, besides those named: kDeadlineExceeded, kConnectionLost (of a
// remote one; the call may have been executed), kStaleEpoch (D4).
//
// Concurrency: any thread. Lifetime: outlives the agents that use it.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/segment/ids.h"

namespace yonder::segment {

enum class SegmentState : std::uint8_t { kOwned = 0, kMoving = 1, kLost = 2 };

struct SegmentRecord {
  SegmentId id;
  SlotRange slots;
  std::uint64_t bytes = 0;
  ProcessId owner;
  ProcessId target;  // kMoving: to whom; kOwned: from whom it came, if it did
  Epoch epoch;
  SegmentState state = SegmentState::kOwned;
  friend bool operator==(const SegmentRecord&, const SegmentRecord&) = default;
};

struct Move {
  SegmentId segment;
  ProcessId from;
  ProcessId to;
  Epoch epoch;  // of the segment before
};

class Directory {
 public:
  // No address is longer.
  static constexpr std::size_t kMaxAddress = 256;

  virtual ~Directory() = default;

  // Takes part from now on; `address` is where its agent listens.
  virtual Result<ProcessId> join(std::string_view address, Deadline deadline) = 0;
  // To be called well within the lease.
  virtual Result<void> renew(ProcessId process, Deadline deadline) = 0;
  // Ends its part; segments it still owns are lost.
  virtual Result<void> leave(ProcessId process, Deadline deadline) = 0;
  // kNotFound: there never was one, or it is dead.
  virtual Result<std::string> address_of(ProcessId process, Deadline deadline) = 0;

  // kInvalidArgument: size; kResourceExhausted: no slots are left.
  virtual Result<SegmentRecord> allocate(ProcessId owner, std::uint64_t bytes, Deadline deadline) = 0;
  // By its owner, or by anybody if it is lost. kNotFound, kNotOwner; kAlreadyExists
  // while it is moving.
  virtual Result<void> deallocate(ProcessId owner, SegmentId segment, Deadline deadline) = 0;
  virtual Result<SegmentRecord> find(SegmentId segment, Deadline deadline) = 0;
  // Those with an id of at least `from`, by id, as many as fit an answer.
  virtual Result<std::vector<SegmentRecord>> list(SegmentId from, Deadline deadline) = 0;

  // kNotOwner; kAlreadyExists: it is moving; kNotFound: the segment or the target;
  // kSegmentLost.
  virtual Result<SegmentRecord> begin_move(SegmentId segment, ProcessId from, ProcessId to,
                                           Deadline deadline) = 0;
  // The moment of the transfer. kNotFound: no such move (it was cancelled); kSegmentLost.
  virtual Result<SegmentRecord> commit_move(const Move& move, Deadline deadline) = 0;
  // By source or target. Repeating it does nothing.
  virtual Result<void> cancel_move(SegmentId segment, ProcessId by, Deadline deadline) = 0;
};

}  // namespace yonder::segment
