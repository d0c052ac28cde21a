#include "yonder/structures/internal/join_run.h"

#include <algorithm>
#include <string>
#include <vector>

#include "yonder/structures/internal/pause.h"

namespace yonder::structures::internal {
namespace {

using fabric::Task;

// Rows between two pauses for the time they took: a batch or so.
constexpr std::uint64_t kStep = 64;

}  // namespace

JoinRun::JoinRun(const JoinParts& parts)
    : parts_(parts),
      heavy_({.executors = parts.options.executors,
              .heavy_share = parts.options.heavy_share,
              .max_keys = parts.options.max_heavy_keys}),
      table_(parts.options.build_threads, parts.options.expected_build_rows) {}

Task<Result<JoinStats>> JoinRun::run() {
  parts_.scheduler.spawn(send());
  Result<void> taken = co_await take_rounds();
  if (!taken) fail_with(taken.error());
  // The sending task ends by itself: its calls have the deadline, or fail with us.
  Pause pause(std::chrono::microseconds(200));
  while (!has_sent_) co_await parts_.scheduler.sleep_for(pause.next());
  if (error_) co_return std::unexpected(*error_);
  stats_.build_rows = table_.rows();
  stats_.heavy_keys = heavy_.size();
  co_return stats_;
}

void JoinRun::fail_with(const Error& error) {
  if (!error_) error_ = error;
  parts_.sender.abort(*error_);
}

Task<void> JoinRun::compute(Duration duration) {
  if (duration.count() == 0) co_return;
  if (parts_.options.costs.spend) parts_.options.costs.spend(duration);
  // Both tasks are one thread: what one computes the other waits for.
  busy_until_ = std::max(busy_until_, parts_.queue.clock().now()) + duration;
  co_await parts_.scheduler.sleep_until(busy_until_);
}

Task<Result<void>> JoinRun::until(const bool& flag) {
  Pause pause(std::chrono::microseconds(200));
  while (!flag) {
    if (error_) co_return std::unexpected(*error_);
    if (parts_.deadline.passed(parts_.queue.clock().now()))
      co_return fail(ErrorCode::kDeadlineExceeded, "join: wait for the other executors");
    co_await parts_.scheduler.sleep_for(pause.next());
  }
  co_return Result<void>{};
}

// ---------------------------------------------------------------- sending

Task<void> JoinRun::send() {
  Result<void> sent = co_await send_rounds();
  if (!sent) fail_with(sent.error());
  has_sent_ = true;
}

Task<Result<void>> JoinRun::send_rounds() {
  Result<void> done = co_await announce();
  if (done) done = co_await parts_.sender.async_end_round(parts_.deadline);
  if (done) done = co_await until(knows_heavy_);
  if (done) done = co_await send_build();
  if (done) done = co_await parts_.sender.async_end_round(parts_.deadline);
  if (done) done = co_await until(is_built_);
  if (done) done = co_await send_probe();
  if (done) done = co_await parts_.sender.async_finish(parts_.deadline);
  co_return done;
}

Task<Result<void>> JoinRun::send_to(std::uint32_t executor, ShuffleEntry row) {
  for (;;) {
    Result<void> added = parts_.sender.try_add_to(executor, row);
    if (added || !(added.error() == ErrorCode::kQueueFull)) co_return added;
    Result<void> room = co_await parts_.sender.async_room(parts_.deadline);
    if (!room) co_return room;
  }
}

Task<Result<void>> JoinRun::announce() {
  std::vector<HeavyAnnouncement> announcements;
  try {
    announcements = sample_heavy_keys(parts_.probe.rows, parts_.options.sample_rows, parts_.probe.at,
                                      parts_.options.max_heavy_keys);
  } catch (...) {
    co_return fail(ErrorCode::kHandlerFailed, "join: the probe relation threw");
  }
  for (const HeavyAnnouncement& announcement : announcements) {
    const ShuffleEntry entry{.key = std::as_bytes(std::span(announcement.key)),
                             .value = std::as_bytes(std::span(&announcement.rows, 1))};
    for (std::uint32_t to = 0; to < parts_.options.executors; ++to) {
      Result<void> sent = co_await send_to(to, entry);
      if (!sent) co_return sent;
    }
  }
  // Announcements are ours, and gathered ones are used until they are written.
  co_return co_await parts_.sender.async_flush(parts_.deadline);
}

Result<ShuffleEntry> JoinRun::row_of(const JoinRelation& relation, std::uint64_t row) const {
  try {
    return relation.at(row);
  } catch (...) {
    return fail(ErrorCode::kHandlerFailed, "join: a relation threw", static_cast<std::int64_t>(row));
  }
}

Task<Result<void>> JoinRun::send_build() {
  const JoinOptions& options = parts_.options;
  for (std::uint64_t i = 0; i < parts_.build.rows; ++i) {
    Result<ShuffleEntry> row = row_of(parts_.build, i);
    if (!row) co_return std::unexpected(row.error());
    const bool heavy = heavy_.contains(row->key);
    const std::uint32_t home = hash_partition(row->key, options.executors);
    for (std::uint32_t to = heavy ? 0 : home; to < (heavy ? options.executors : home + 1); ++to) {
      if (to == options.index) {
        table_.add(*row);
        continue;
      }
      ++stats_.sent_rows;
      Result<void> sent = parts_.sender.try_add_to(to, *row);
      if (!sent && sent.error() == ErrorCode::kQueueFull) sent = co_await send_to(to, *row);
      if (!sent) co_return sent;
    }
    if (i % kStep == 0) co_await compute(options.costs.partition * kStep);
  }
  co_return Result<void>{};
}

Task<Result<void>> JoinRun::send_probe() {
  const JoinOptions& options = parts_.options;
  std::vector<ShuffleEntry> own;  // Looked up many at a time: see JoinTable.
  own.reserve(kStep);
  for (std::uint64_t i = 0; i < parts_.probe.rows; ++i) {
    Result<ShuffleEntry> row = row_of(parts_.probe, i);
    if (!row) co_return std::unexpected(row.error());
    const std::uint32_t home =
        heavy_.contains(row->key) ? options.index : hash_partition(row->key, options.executors);
    Result<void> done;
    if (home == options.index) {
      own.push_back(*row);
    } else {
      ++stats_.sent_rows;
      done = parts_.sender.try_add_to(home, *row);
      if (!done && done.error() == ErrorCode::kQueueFull) done = co_await send_to(home, *row);
    }
    if (own.size() == kStep || i + 1 == parts_.probe.rows) {
      const Duration lookups = options.costs.probe * static_cast<std::int64_t>(own.size());
      if (done) done = look_up(own);
      own.clear();
      co_await compute(lookups);
    }
    if (!done) co_return done;
    if (i % kStep == 0) co_await compute(options.costs.partition * kStep);
  }
  co_return Result<void>{};
}

// ---------------------------------------------------------------- taking

Task<Result<void>> JoinRun::take_rounds() {
  Result<void> done = co_await take_round(Round::kAnnounce);
  if (!done) co_return done;
  heavy_.decide();
  knows_heavy_ = true;
  done = co_await take_round(Round::kBuild);
  if (!done) co_return done;
  table_.seal();
  is_built_ = true;
  done = co_await take_round(Round::kProbe);
  if (done) done = co_await parts_.receiver.async_finish(parts_.deadline);
  co_return done;
}

Task<Result<void>> JoinRun::take_round(Round round) {
  const JoinCosts& costs = parts_.options.costs;
  const Duration each = round == Round::kBuild   ? costs.build
                        : round == Round::kProbe ? costs.probe
                                                 : Duration(0);
  for (;;) {
    Result<ShuffleBatch> batch = co_await parts_.receiver.async_next(parts_.deadline);
    if (!batch) co_return std::unexpected(batch.error());
    if (batch->is_end()) break;
    Result<void> taken = take(round, *batch);
    if (!taken) co_return taken;
    co_await compute(each * batch->size());
  }
  co_return Result<void>{};
}

Result<void> JoinRun::take(Round round, const ShuffleBatch& batch) {
  if (round == Round::kProbe) {
    taken_.clear();
    for (const ShuffleEntry row : batch) taken_.push_back(row);
    return look_up(taken_);
  }
  for (const ShuffleEntry row : batch) {
    if (round == Round::kBuild) {
      table_.add(row);
    } else if (!heavy_.hear(row)) {
      return fail(ErrorCode::kCorrupt, "join: an executor announced nonsense", batch.sender());
    }
  }
  return {};
}

void JoinRun::emit(const ShuffleEntry& row, JoinTable::Chain chain) {
  const JoinKind kind = parts_.options.kind;
  bool matched = false;
  JoinTable::for_each(chain, row.key, [&](std::span<const std::byte> build_value) {
    matched = true;
    if (kind == JoinKind::kSemi) return false;
    ++stats_.results;
    parts_.sink({.key = row.key, .probe_value = row.value, .build_value = build_value, .matched = true});
    return true;
  });
  const bool alone = kind == JoinKind::kSemi ? matched : kind == JoinKind::kLeft && !matched;
  if (!alone) return;
  ++stats_.results;
  parts_.sink({.key = row.key, .probe_value = row.value, .build_value = {}, .matched = matched});
}

Result<void> JoinRun::look_up(std::span<const ShuffleEntry> rows) {
  stats_.probe_rows += rows.size();
  chains_.resize(std::max(chains_.size(), rows.size()));
  table_.find_chains(rows, chains_);
  try {
    for (std::size_t i = 0; i < rows.size(); ++i) emit(rows[i], chains_[i]);
  } catch (...) {
    return fail(ErrorCode::kHandlerFailed, "join: the sink threw");
  }
  return {};
}

}  // namespace yonder::structures::internal
