#pragma once
// Compactor: moves the objects of half-empty frames together, so that frames become
// free, while programs read and write them.
//
// One run of a class (CoRM 3.1.4):
//   collect   take every frame with free slots away from the threads and pools that
//             hand out its slots; objects stay in use
//   plan      which blocks go where (packing.h)
//   move      block by block: each object is locked against writers, copied, and
//             its slot says where it went; then the block's table entry is
//             switched. A frame that all blocks have left is retired
//   give      what was collected goes back to its class
//
// All of it is done in slices, bounded in time and, moving, in blocks; between slices
// anything may happen, also the end of the run (stop()): every state in between is one
// that readers and writers can live with. What cannot be divided is small: taking
// frames from threads (a barrier), reading one frame's headers, ordering the frames of
// a run, moving one block (2 KiB, or one object of at most 64 KiB), giving a few pages
// back to the system.
//
// Each class has at most one run; whoever finds it idle becomes its leader.
//
// Triggers: run_due() for classes whose fragmentation exceeds its threshold (the
// background thread calls it), relieve() for a heap at its limit (the heap calls
// it), compact() for whoever asks.
//
// Concurrency: any thread, not inside an operation of a HeapThread. A slice of a
// class that another thread is leading returns kBusy.
// Lifetime: belongs to its heap. The background thread ends in stop_background(),
// at the latest in the destructor.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/node/object_ptr.h"
#include "yonder/sync/mutex.h"

namespace yonder::node {

namespace internal {
struct HeapCore;
class CompactionRun;
}  // namespace internal

struct SliceLimits {
  std::uint32_t blocks = 64;
  Duration time = std::chrono::microseconds(200);
};

// How far the move of an object is; in this order (H3 of header_word.h).
enum class MoveStage : std::uint8_t {
  kLocked,  // writers wait from here on; readers use the old copy
  kCopied,  // the new copy is complete, and nobody can find it
  kLinked,  // the old slot says where the object went; the new copy is locked
  kDone,    // the object can be written again
};

struct CompactorOptions {
  // A class is due when it has this many slots per live object …
  double threshold = 1.25;
  // … and frames of this many bytes more than its objects need.
  std::uint64_t min_waste_bytes = 64 << 10;
  // Thresholds of single classes (by index); 0 or missing: the one above.
  std::vector<double> class_thresholds;
  SliceLimits slice;
  // Frames of one run, the emptiest: bounds the memory that a plan takes.
  std::uint32_t max_frames = 4096;
  // Called at every stage of every move, if set, by whoever compacts. What it does
  // there holds up the writers of this one object: for tests, and for tracing.
  std::function<void(MoveStage stage, BlockId home, ObjectId id)> on_move;
};

// What a run would do, or did.
struct CompactionEstimate {
  std::uint64_t frames = 0;        // with free slots
  std::uint64_t frames_freed = 0;  // of these
  std::uint64_t bytes_freed = 0;
  std::uint64_t objects_moved = 0;
};

enum class SliceOutcome : std::uint8_t {
  kMore,     // the run goes on
  kLater,    // a thread has not left an operation that began before the last run ended
  kDone,     // the run has ended and freed something
  kNothing,  // nothing to gain
  kBusy,     // another thread is leading this class
};

struct CompactionCounters {
  std::uint64_t runs = 0;
  std::uint64_t slices = 0;
  std::uint64_t blocks_moved = 0;
  // How often the system refused the switch of a block that had moved (Remap::kMmap: no
  // mapping, or the NIC): its class is compacted no further until one succeeds.
  std::uint64_t switches_refused = 0;
  std::uint64_t objects_moved = 0;
  std::uint64_t bytes_moved = 0;
  std::uint64_t frames_freed = 0;
  std::uint64_t bytes_freed = 0;
  std::uint64_t collection_ns = 0;          // Collecting and planning, all runs.
  std::uint64_t longest_collection_ns = 0;  // Of one slice.
  std::uint64_t moving_ns = 0;
  std::uint64_t longest_slice_ns = 0;
};

class Compactor {
 public:
  Compactor(internal::HeapCore& core, const CompactorOptions& options);
  Compactor(const Compactor&) = delete;
  Compactor& operator=(const Compactor&) = delete;
  ~Compactor();

  // What compact() would do now. Changes nothing; other threads may go on, so the
  // answer is as true as a moment ago.
  CompactionEstimate dry_run(std::uint8_t size_class) const;

  // One slice of the class's run, beginning it if there is none.
  SliceOutcome slice(std::uint8_t size_class, const SliceLimits& limits);
  SliceOutcome slice(std::uint8_t size_class) { return slice(size_class, options_.slice); }
  // Slices until there is nothing more to gain. Returns the bytes of frames freed.
  std::uint64_t compact(std::uint8_t size_class);
  std::uint64_t compact_all();
  // compact() for the classes that are due. Returns the bytes of frames freed.
  std::uint64_t run_due();
  bool is_due(std::uint8_t size_class) const;
  // Bytes of frames beyond those that the live objects would fill: the most that
  // compaction could free.
  std::uint64_t waste_bytes(std::uint8_t size_class) const;
  // For a heap at its limit: true if memory was freed, or another thread is at it.
  bool relieve();
  // Ends a run that is under way between two slices: its frames go back. kBusy if
  // another thread is in a slice of it.
  SliceOutcome stop(std::uint8_t size_class);

  // A thread that calls run_due() every `interval`. kInvalidArgument: there is one.
  Result<void> start_background(Duration interval);
  void stop_background();

  CompactionCounters counters() const;

  // For check_invariants(): blocks of which a run holds the census (R5 of
  // internal/compaction_run.h). Requires that nobody compacts.
  std::vector<BlockId> held_blocks() const;

 private:
  struct ClassRun;
  class Leader;

  std::uint64_t live_objects(std::uint8_t size_class) const;
  std::uint64_t compact_while(std::uint8_t size_class, const std::atomic<bool>* stopping);
  void background(Duration interval);
  void add_to_counters(const CompactionCounters& part);

  internal::HeapCore& core_;
  const CompactorOptions options_;
  std::vector<std::unique_ptr<ClassRun>> runs_;  // Per class.

  mutable sync::Mutex counters_mutex_;
  CompactionCounters counters_ YONDER_GUARDED_BY(counters_mutex_);

  sync::Mutex background_mutex_;
  sync::Condition background_wakes_;
  std::atomic<bool> background_stops_{false};
  std::thread background_;
};

}  // namespace yonder::node
