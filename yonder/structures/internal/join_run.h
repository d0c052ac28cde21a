#pragma once
// One executor's part of one join, as two tasks of one scheduler: one sends, the other
// takes, and both look up what is found here.
//
//   round          sending task                        taking task
//   0  announce    the heavy keys of a sample      ─►  adds up; knows_heavy_ at the end
//   1  build       waits for knows_heavy_; rows    ─►  into the table; is_built_ at the end
//   2  probe       waits for is_built_; rows,      ─►  looked up
//                  own and heavy ones looked up
//
// Waiting for the taking task of the same executor cannot go in a circle: it ends a
// round when all executors have ended theirs, and they do so without waiting for it.
//
// Concurrency: the scheduler's thread. Lifetime: everything it was given outlives it.

#include <cstdint>
#include <optional>
#include <vector>

#include "yonder/structures/internal/join_heavy.h"
#include "yonder/structures/internal/join_table.h"
#include "yonder/structures/join.h"

namespace yonder::structures::internal {

struct JoinParts {
  fabric::CompletionQueue& queue;
  fabric::Scheduler& scheduler;
  ShuffleSender& sender;
  ShuffleReceiver& receiver;
  const JoinOptions& options;
  const JoinRelation& build;
  const JoinRelation& probe;
  const JoinSink& sink;
  Deadline deadline;
};

class JoinRun {
 public:
  explicit JoinRun(const JoinParts& parts);

  fabric::Task<Result<JoinStats>> run();

 private:
  enum class Round : std::uint8_t { kAnnounce, kBuild, kProbe };

  fabric::Task<void> send();
  fabric::Task<Result<void>> send_rounds();
  fabric::Task<Result<void>> announce();
  fabric::Task<Result<void>> send_build();
  fabric::Task<Result<void>> send_probe();
  fabric::Task<Result<void>> send_to(std::uint32_t executor, ShuffleEntry row);

  fabric::Task<Result<void>> take_rounds();
  fabric::Task<Result<void>> take_round(Round round);
  Result<void> take(Round round, const ShuffleBatch& batch);

  // Looks the rows up and calls the sink.
  Result<void> look_up(std::span<const ShuffleEntry> rows);
  void emit(const ShuffleEntry& row, JoinTable::Chain chain);
  Result<ShuffleEntry> row_of(const JoinRelation& relation, std::uint64_t row) const;

  // Until the flag is set, or the taking task has failed.
  fabric::Task<Result<void>> until(const bool& flag);
  // Virtual time in which the executor computes.
  fabric::Task<void> compute(Duration duration);
  void fail_with(const Error& error);

  const JoinParts parts_;
  HeavyKeys heavy_;
  JoinTable table_;
  std::vector<ShuffleEntry> taken_;       // of the batch at hand
  std::vector<JoinTable::Chain> chains_;  // of look_up()
  bool knows_heavy_ = false;
  bool is_built_ = false;
  bool has_sent_ = false;
  std::optional<Error> error_;  // The first, of either task.
  Instant busy_until_;
  JoinStats stats_;
};

}  // namespace yonder::structures::internal
