// One-sided reads: what OneSidedRead decides, done.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "yonder/client/internal/fetch.h"
#include "yonder/client/internal/session_core.h"
#include "yonder/node/ticks.h"

namespace yonder::client::internal {

using Need = OneSidedRead::Need;

bool SessionCore::try_near(ObjectPtr& object, std::span<std::byte> out, ObjectVersion& version) {
  if (!near_.has_superblocks() || !map_->is_plausible(object, out.size())) [[unlikely]]
    return false;
  if (!near_.try_read(*map_, object, out, version) && !try_near_elsewhere(object, out, version)) [[unlikely]]
    return false;
  ++stats_.direct_reads;
  ++stats_.near_reads;
  if (--near_reads_until_poll_ == 0) [[unlikely]] {
    near_reads_until_poll_ = kNearReadsPerPoll;
    queue_->poll({});
  }
  return true;
}

bool SessionCore::try_near_elsewhere(ObjectPtr& object, std::span<std::byte> out, ObjectVersion& version) {
  if (!near_.is_open()) return false;
  ++stats_.retries;
  const ObjectPtr given = object;
  const bool may_scan = options_.correction == Correction::kScan;
  if (!near_.try_elsewhere(*map_, object, out, version, may_scan)) return false;
  if (object != given) {
    ++stats_.corrections;
    ++stats_.scans;
  }
  return true;
}

void SessionCore::prefetch_near(std::span<const ReadItem> items) const {
  for (const ReadItem& item : items) {
    if (map_->is_plausible(item.object, item.out.size())) near_.prefetch(*map_, item.object);
  }
}

// A copy that is not proven by its own checksum must be quick: S4.
bool SessionCore::must_ask_for(std::size_t bytes) const {
  return !map_->is_self_proving() && bytes > node::kMaxOptimisticBytes;
}

Result<ObjectVersion> SessionCore::direct_read_blocking(ObjectPtr& object, std::span<std::byte> out,
                                                        Deadline deadline) {
  const bool is_plain = map_->is_plausible(object, out.size()) && !is_outdated() && !must_ask_for(out.size());
  if (!is_plain) [[unlikely]]
    return scheduler_->block_on(direct_read(object, out, deadline, false));
  OneSidedRead machine(*map_, clock(), translations_, view_keys_, scratch_, object, out);
  Need need = machine.begin();
  // The first fetch may leave without a deadline: the endpoint then gives it our timeout. Looking
  // at the clock is work that a NIC need not wait for.
  const auto fix_deadline = [&] { deadline = or_default(deadline); };
  // What takes more rounds looks at its deadline between them.
  for (int round = 0; need == Need::kFetch && round < kBlockingRounds; ++round) {
    BlockingFetch fetch(rpc_->endpoint(), read_budget_, machine.requests(), deadline);
    if (!fetch.run(*scheduler_, fix_deadline)) break;  // It is repeated below, which finds out what is wrong.
    need = machine.judge();
  }
  Result<ObjectVersion> version = machine.version();
  if (need == Need::kDone) [[likely]] {
    object = machine.object();
    ++stats_.direct_reads;
  } else {
    version = scheduler_->block_on(run(machine, need, object, or_default(deadline)));
  }
  stats_.retries += machine.retries();
  if (version) look_for_windows();
  if (version || !says_outdated(version.error())) [[likely]]
    return version;
  return scheduler_->block_on(direct_read(object, out, deadline, false));
}

Task<Result<ObjectVersion>> SessionCore::direct_read(ObjectPtr& object, std::span<std::byte> out,
                                                     Deadline deadline, bool scan_first) {
  deadline = or_default(deadline);
  for (;;) {
    if (is_outdated()) [[unlikely]] {
      const Result<void> known = co_await describe(deadline);
      if (!known) co_return std::unexpected(known.error());
    }
    const Result<void> good = map_->check(object, out.size());
    if (!good) co_return std::unexpected(good.error());
    if (must_ask_for(out.size())) co_return co_await read(object, out, deadline);
    Result<void> ready;
    if (scan_first) {
      ready = co_await find_by_scan(object, deadline);
      // A block that was registered anew meanwhile: the read looks for the object itself.
      if (bool refused = false; !ready && may_fetch_again(ready.error(), refused)) {
        if (!refused) ++stats_.lost_connections;
        ready = {};
      }
    }
    Result<ObjectVersion> version = ObjectVersion();
    if (ready) {
      OneSidedRead machine(*map_, clock(), translations_, view_keys_, scratch_, object, out);
      const Need first = machine.begin();
      version = co_await run(machine, first, object, deadline);
      stats_.retries += machine.retries();
    } else {
      version = std::unexpected(ready.error());
    }
    if (version) look_for_windows();
    if (version || !says_outdated(version.error())) co_return version;
    // The node took its memory back: it stops, or another process has it already. Asking
    // tells which.
    const Result<void> known = co_await describe(deadline);
    if (!known) co_return std::unexpected(known.error());
    if (deadline.passed(clock().now())) co_return version;
  }
}

bool SessionCore::may_fetch_again(const Error& error, bool& refused) const {
  if (map_->views() != node::protocol::ViewKind::kKeys) return false;
  switch (error.code()) {
    case ErrorCode::kUnknownKey:
    case ErrorCode::kRegionRevoked:
    case ErrorCode::kOutOfBounds:
    case ErrorCode::kAccessDenied:
      refused = true;
      return true;
    case ErrorCode::kConnectionLost: {
      // It comes back by itself, if it can; a read that is posted meanwhile waits for it.
      const fabric::EndpointState state = rpc_->endpoint().state();
      return state == fabric::EndpointState::kOpen || state == fabric::EndpointState::kReconnecting;
    }
    default:
      return false;
  }
}

Task<Result<ObjectVersion>> SessionCore::run(OneSidedRead& machine, Need need, ObjectPtr& object,
                                             Deadline deadline) {
  while (need != Need::kDone) {
    if (need == Need::kAsk) co_return co_await read(object, machine.output(), deadline);
    Result<void> got;
    if (need == Need::kFetch) {
      got = co_await Fetch(rpc_->endpoint(), read_budget_, machine.requests(), deadline);
      if (got) need = machine.judge();
      if (need == Need::kDone) break;
    } else {
      got = co_await serve(machine, need, deadline);
    }
    if (!got) {
      bool refused = false;
      const bool again = may_fetch_again(got.error(), refused);
      if (!again || machine.refusals() >= kMaxRefusals) co_return std::unexpected(got.error());
      if (!refused) ++stats_.lost_connections;
      need = machine.begin_again(refused);
    }
    if (deadline.passed(clock().now())) co_return fail(ErrorCode::kDeadlineExceeded, "direct read");
  }
  object = machine.object();
  ++stats_.direct_reads;
  co_return machine.version();
}

Task<Result<void>> SessionCore::serve(OneSidedRead& machine, Need& need, Deadline deadline) {
  if (need == Need::kPause) {
    co_await scheduler_->sleep_for(machine.pause());
  } else if (need == Need::kUnknown && !map_->knows(machine.translation().entry.frame())) {
    const Result<void> learned = co_await learn_superblocks(deadline);
    if (!learned) co_return learned;
    // The node has no such superblock: whatever named it, the node knows better.
    if (!map_->knows(machine.translation().entry.frame())) need = Need::kElsewhere;
  }
  if (need != Need::kElsewhere) {
    need = machine.begin();
    co_return Result<void>();
  }
  ++stats_.corrections;
  ObjectPtr object = machine.object();
  const Result<void> corrected = co_await correct(object, machine.translation(), deadline);
  if (!corrected) co_return corrected;
  need = machine.begin_at(object);
  co_return Result<void>();
}

Task<Result<void>> SessionCore::correct(ObjectPtr& object, Translation seen, Deadline deadline) {
  if (options_.correction == Correction::kTell) {
    co_return fail(ErrorCode::kObjectMoved, "direct read: the object is not where the pointer says");
  }
  if (options_.correction == Correction::kScan) {
    const Result<bool> found = co_await scan(object, seen, deadline);
    if (!found) co_return std::unexpected(found.error());
    if (*found) co_return Result<void>();
  }
  co_return co_await find(object, deadline);
}

namespace {

struct BatchedRead {
  BatchedRead(ReadItem& of, const NodeMap& map, const Clock& clock, Translations& translations,
              ViewKeys& keys, ScratchPool& scratch)
      : item(of), machine(map, clock, translations, keys, scratch, of.object, of.out) {}
  ReadItem& item;
  OneSidedRead machine;
  Need need = Need::kFetch;
};

}  // namespace

// Rounds: everything that is to be fetched leaves with one doorbell. What needs more
// than fetches is rare, and goes on alone afterwards.
Task<void> SessionCore::direct_read_many(std::span<ReadItem> items, Deadline deadline) {
  deadline = or_default(deadline);
  if (is_outdated()) [[unlikely]] {
    const Result<void> known = co_await describe(deadline);
    if (!known) {
      for (ReadItem& item : items) item.result = std::unexpected(known.error());
      co_return;
    }
  }
  std::vector<std::unique_ptr<BatchedRead>> reads;
  for (ReadItem& item : items) {
    if (ObjectVersion version; try_near(item.object, item.out, version)) {
      item.result = version;
      continue;
    }
    const Result<void> good = map_->check(item.object, item.out.size());
    if (!good) {
      item.result = std::unexpected(good.error());
    } else if (must_ask_for(item.out.size())) {
      item.result = co_await read(item.object, item.out, deadline);
    } else {
      reads.push_back(
          std::make_unique<BatchedRead>(item, *map_, clock(), translations_, view_keys_, scratch_));
      reads.back()->need = reads.back()->machine.begin();
    }
  }
  std::vector<fabric::WorkRequest> requests;
  constexpr int kRounds = 4;
  for (int round = 0; round < kRounds; ++round) {
    if (std::ranges::any_of(reads, [](const auto& one) { return one->need == Need::kUnknown; })) {
      // One question for all of them; if it fails, each finds out by itself.
      const Result<void> learned = co_await learn_superblocks(deadline);
      if (!learned) break;
      for (const auto& one : reads) {
        if (one->need == Need::kUnknown) one->need = one->machine.begin();
      }
    }
    requests.clear();
    for (const auto& one : reads) {
      if (one->need != Need::kFetch) continue;
      const auto wanted = one->machine.requests();
      requests.insert(requests.end(), wanted.begin(), wanted.end());
    }
    if (requests.empty()) break;
    const Result<void> fetched = co_await Fetch(rpc_->endpoint(), read_budget_, requests, deadline);
    for (const auto& one : reads) {
      if (one->need == Need::kFetch) one->need = fetched ? one->machine.judge() : one->machine.begin();
    }
    if (!fetched) break;  // Each finds out by itself what is wrong.
  }
  for (const auto& one : reads) {
    one->item.result = co_await run(one->machine, one->need, one->item.object, deadline);
    stats_.retries += one->machine.retries();
    if (!one->item.result && says_outdated(one->item.result.error())) {
      one->item.result = co_await direct_read(one->item.object, one->item.out, deadline, false);
    }
  }
  if (!reads.empty()) look_for_windows();
}

}  // namespace yonder::client::internal
