#pragma once
// Join: the rows of two relations that have equal keys, found by E executors, each of
// which holds a part of both. A partitioned hash join on the shuffle.
//
//   auto executor = JoinExecutor::create(fabric, queue, scheduler,
//                                        {.address = "tcp://0.0.0.0:7600", .executors = 4, .index = 2});
//   YONDER_TRY_VOID((*executor)->connect(addresses_of_all));
//   YONDER_TRY(stats, (*executor)->run(build, probe, sink, deadline));
//
// Three rounds of one shuffle:
//   0  Heavy keys. Each executor counts the keys in a sample of its probe side and tells
//      all others which are frequent. All add up the same numbers, so all know the same
//      set of heavy keys.
//   1  Build. Rows of the build side go to the executor that the hash of their key
//      names, rows with heavy keys to all of them. Each keeps what it gets in a
//      concurrent hash map (oneTBB), filled by `build_threads` threads.
//   2  Probe. Rows of the probe side go where the build rows of their key went; rows
//      with heavy keys stay where they are. Each is looked up, and the sink is called.
//
// Skew. A key that half of the probe side has would send half of it to one executor.
// As a heavy key it is probed where its rows happen to be, at the price of having its
// build rows everywhere: E copies of them. That is right for every kind of join here,
// because each probe row is looked up exactly once, where all build rows of its key
// are. A build side with a frequent key that the probe side seldom asks for is not
// split: its rows are a chain at one executor.
//
// Rows for the executor itself do not travel.
//
// Memory: the shuffle's rings (bounded), and the executor's share of the build side
// with 16 bytes per row and one map entry per distinct key.
//
// Concurrency: the thread of the queue, plus the build threads, which only fill the
// map. The relations are read and the sink is called by the thread of the queue.
// Lifetime: fabric, queue and scheduler outlive the executor; the relations' rows stay
// where they are until run() returns. Not to be destroyed inside a task.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/fabric/fabric.h"
#include "yonder/fabric/scheduler.h"
#include "yonder/fabric/task.h"
#include "yonder/structures/shuffle.h"
#include "yonder/structures/shuffle_receiver.h"
#include "yonder/structures/shuffle_sender.h"

namespace yonder::structures {

namespace internal {
class JoinRun;
}

enum class JoinKind : std::uint8_t {
  kInner,  // a row for each pair
  kLeft,   // … and a row for each probe row without a pair
  kSemi,   // a row for each probe row that has a pair
};

// One executor's part of a relation. `at` may be called for any row, several times.
struct JoinRelation {
  std::uint64_t rows = 0;
  std::function<ShuffleEntry(std::uint64_t row)> at;
};

struct JoinRow {
  std::span<const std::byte> key;
  std::span<const std::byte> probe_value;
  std::span<const std::byte> build_value;  // kInner, kLeft
  bool matched = false;                    // kLeft: false if there is no pair
};
// Lifetime of the spans: the call. An exception ends the join with kHandlerFailed.
using JoinSink = std::function<void(const JoinRow& row)>;

// What steps cost a simulated executor per row, in virtual time, which computing does
// not advance by itself; 0 for real ones. `spend` is told too (sim::spend_cpu).
struct JoinCosts {
  Duration partition{0};
  Duration build{0};
  Duration probe{0};
  std::function<void(Duration)> spend;
};

struct JoinOptions {
  std::string address;          // to listen at
  std::uint32_t executors = 1;  // E
  std::uint32_t index = 0;      // which of them this is
  JoinKind kind = JoinKind::kInner;

  ShuffleStrategy strategy = ShuffleStrategy::kPack;
  std::uint32_t batch_entries = 64;
  std::uint64_t ring_bytes = 256 * 1024;
  // kGather: of the region in which the rows of both relations lie.
  fabric::LocalKey row_memory = fabric::kUnregistered;

  std::uint32_t build_threads = 0;        // 0: the thread of the queue
  std::uint64_t expected_build_rows = 0;  // of this executor: makes the map large enough at once

  std::uint32_t sample_rows = 4096;  // of the probe side, per executor; 0: no heavy keys
  // A key is heavy if its probe rows are this share of an executor's fair share.
  double heavy_share = 0.1;
  std::uint32_t max_heavy_keys = 256;

  Duration timeout = std::chrono::seconds(5);  // of each request and of connecting
  std::optional<int> numa_node;
  JoinCosts costs;
};

struct JoinStats {
  std::uint64_t build_rows = 0;  // in this executor's map
  std::uint64_t probe_rows = 0;  // looked up here
  std::uint64_t results = 0;
  std::uint64_t heavy_keys = 0;
  std::uint64_t sent_rows = 0;  // of both sides, to others
};

class JoinExecutor {
 public:
  // Listens. Errors: those of ShuffleReceiver::create, kInvalidArgument (an index that
  // is not below `executors`).
  static Result<std::unique_ptr<JoinExecutor>> create(fabric::Fabric& fabric, fabric::CompletionQueue& queue,
                                                      fabric::Scheduler& scheduler,
                                                      const JoinOptions& options);
  ~JoinExecutor();
  JoinExecutor(const JoinExecutor&) = delete;
  JoinExecutor& operator=(const JoinExecutor&) = delete;

  std::string address() const;
  // To all executors, this one included, in the order of their numbers. Blocks. Errors:
  // those of ShuffleSender::connect.
  Result<void> connect(std::span<const std::string> addresses);

  // This executor's part of the join, once. Errors: those of the shuffle, and
  // kHandlerFailed if a relation or the sink threw; the join is over everywhere then.
  // kInvalidArgument before connect() or a second time. The relations and the sink are
  // borrowed until it returns.
  Result<JoinStats> run(const JoinRelation& build, const JoinRelation& probe, const JoinSink& sink,
                        Deadline deadline);
  fabric::Task<Result<JoinStats>> async_run(const JoinRelation& build, const JoinRelation& probe,
                                            const JoinSink& sink, Deadline deadline);

 private:
  JoinExecutor(fabric::Fabric& fabric, fabric::CompletionQueue& queue, fabric::Scheduler& scheduler,
               const JoinOptions& options);

  fabric::Fabric& fabric_;
  fabric::CompletionQueue& queue_;
  fabric::Scheduler& scheduler_;
  const JoinOptions options_;
  std::unique_ptr<ShuffleReceiver> receiver_;
  std::unique_ptr<ShuffleSender> sender_;
  std::unique_ptr<internal::JoinRun> run_;  // Its tasks' state.
};

}  // namespace yonder::structures
