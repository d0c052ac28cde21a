// Which changes leave together, and when.
//
//   change ──► lane ──► lead: one image ──► settle: results, waiters
//               ▲ │
//      held back  └─ due, or enough of them, or somebody waits, or flush: drain
//
// A lane has at most one leader. Changes that come meanwhile wait in it, and the leader
// looks again before it goes: so none is forgotten.
#include <algorithm>
#include <utility>

#include "yonder/structures/internal/table_core.h"

namespace yonder::structures::internal {

namespace {

// Of one image.
constexpr std::size_t kMaxTogether = 64;
// How often it is looked whether puts are due, and whether all have left.
constexpr Duration kLook = std::chrono::microseconds(10);
// What is due within this part of the time that puts are held leaves along, a bit early, with
// what is due now: their words are read together.
constexpr int kEarly = 8;
// Lanes that leave at the same time. Enough to hide the trips of each behind those of the
// others; more would only wait in the NIC's queue, while what was seen of their buckets
// grows old.
constexpr std::size_t kLeaving = 8;
// Words that nobody wants between two that are wanted cost less than another request, while
// they are no more bytes than a NIC sends in the time it takes for one: about 1 KiB (paper
// 002: 4.2 million reads a second, 40 Gb/s).
constexpr std::uint64_t kGapWords = 128;
constexpr std::uint64_t kMaxRunWords = 512;

}  // namespace

Task<Result<TableVersion>> TableCore::change(Change change) {
  change.deadline = port_.deadline(change.deadline);
  change.hash = hash_of(change.key);
  if (!options_.consolidate) {
    Change* const alone = &change;
    co_await apply(std::span(&alone, 1), std::nullopt);
    co_return change.result;
  }
  if (options_.write_back > Duration(0) && change.kind == Change::Kind::kPut &&
      is_hot(lane_of(change.hash))) {
    if (const auto room = co_await wait_for_room(change.deadline); !room) {
      co_return std::unexpected(room.error());
    }
    hold_back(change, lane_of(change.hash));
    co_return TableVersion{0};
  }
  const std::uint64_t name = lane_of(change.hash);
  Lane& lane = lanes_[name];
  lane.waiting.push_back(&change);
  ++lane.awaited;
  if (lane.led) {
    co_await InLane{change};
    co_return change.result;
  }
  lane.led = true;
  while (!change.done) co_await lead(name);
  // What came meanwhile is not for this caller to wait for.
  if (must_leave(lane)) {
    start_draining(name);
  } else {
    give_up_lead(name);
  }
  co_return change.result;
}

// By the bucket as we know it. If the table has grown meanwhile two lanes may lead to one
// bucket: the swap of its word decides, as between two front ends. But puts that were
// acknowledged come before all that follow.
std::uint64_t TableCore::lane_of(std::uint64_t hash) const {
  const auto pending = pending_keys_.find(hash);
  if (pending != pending_keys_.end()) return pending->second.lane;
  return bucket_name(current_.log2, current_.bucket_of(hash));
}

bool TableCore::is_hot(std::uint64_t name) const { return kept_by_name_.contains(name); }

bool TableCore::must_leave(const Lane& lane) const {
  if (lane.waiting.empty()) return false;
  return lane.awaited != 0 || lane.waiting.size() >= options_.together || flushing_ != 0 ||
         lane.due <= port_.clock().now();
}

// ---------------------------------------------------------------- leading

Task<void> TableCore::lead(std::uint64_t name) {
  Lane& lane = lanes_.at(name);  // Stays there: it is led.
  const auto end =
      lane.waiting.begin() + static_cast<std::ptrdiff_t>(std::min(lane.waiting.size(), kMaxTogether));
  const std::vector<Change*> together(lane.waiting.begin(), end);
  lane.waiting.erase(lane.waiting.begin(), end);
  lane.awaited -= static_cast<std::size_t>(std::ranges::count(together, false, &Change::is_held));
  lane.due = port_.clock().now() + options_.write_back;
  const std::optional<Seen> seen = std::exchange(lane.seen, std::nullopt);
  co_await apply(together, seen);
  settle(lane, together);
}

void TableCore::settle(Lane& lane, std::span<Change* const> changes) {
  std::vector<std::coroutine_handle<>> waiters;
  for (Change* change : changes) {
    change->done = true;
    if (change->waiter) waiters.push_back(change->waiter);
    if (!change->is_held) continue;
    if (!change->result && first_failure_) first_failure_ = std::unexpected(change->result.error());
    const auto key = pending_keys_.find(change->hash);
    if (--key->second.puts == 0) pending_keys_.erase(key);
  }
  pending_ -= std::erase_if(lane.pending, [](const auto& put) { return put->done; });
  // Last, because they may change this bucket again. What they wait for is gone by now,
  // except that the lane is still led: they queue.
  for (const std::coroutine_handle<> waiter : waiters) waiter.resume();
}

Task<void> TableCore::drain(std::uint64_t name, Countdown* countdown) {
  const Lane& lane = lanes_.at(name);
  while (must_leave(lane)) co_await lead(name);
  give_up_lead(name);
  if (countdown != nullptr) countdown->one_ended();
}

void TableCore::start_draining(std::uint64_t name) {
  lanes_.at(name).led = true;
  port_.scheduler().spawn(drain(name, nullptr));
}

void TableCore::give_up_lead(std::uint64_t name) {
  Lane& lane = lanes_.at(name);
  lane.led = false;
  if (lane.waiting.empty()) {
    lanes_.erase(name);
  } else {
    look_when_due(name, lane);  // The sweep has passed it by while it was led.
  }
}

// ---------------------------------------------------------------- write-back

Task<Result<void>> TableCore::wait_for_room(Deadline deadline) {
  while (pending_ >= kMaxPending) {
    if (deadline.passed(port_.clock().now())) {
      co_return fail(ErrorCode::kDeadlineExceeded, "hash table: too many puts are pending", pending_);
    }
    co_await port_.scheduler().sleep_for(kLook);
  }
  co_return Result<void>();
}

void TableCore::hold_back(const Change& change, std::uint64_t name) {
  auto put = std::make_unique<PendingPut>();
  static_cast<Change&>(*put) = change;
  put->own_key.assign(change.key.begin(), change.key.end());
  put->own_value.assign(change.value.begin(), change.value.end());
  put->key = put->own_key;
  put->value = put->own_value;
  put->is_held = true;
  // The caller's was for the acknowledgement.
  put->deadline = Deadline::after(port_.clock(), options_.write_back + port_.timeout());
  port_.queue().charge_copy(2, change.key.size() + change.value.size());
  PendingKey& key = pending_keys_[change.hash];
  key.lane = name;
  ++key.puts;
  ++pending_;
  Lane& lane = lanes_[name];
  if (lane.waiting.empty()) {
    lane.due = port_.clock().now() + options_.write_back;
    if (!lane.led) look_when_due(name, lane);
  }
  lane.waiting.push_back(put.get());
  lane.pending.push_back(std::move(put));
  if (!lane.led && must_leave(lane)) start_draining(name);
}

void TableCore::look_when_due(std::uint64_t name, const Lane& lane) {
  due_.push({.lane = name, .at = lane.due});
  if (sweeping_) return;
  sweeping_ = true;
  ++background_;
  port_.scheduler().spawn(sweep());
}

Task<void> TableCore::sweep() {
  while (pending_ != 0 && !due_.empty()) {
    const Due next = due_.top();
    const auto found = lanes_.find(next.lane);
    if (found == lanes_.end() || found->second.led || found->second.due != next.at) {
      due_.pop();
    } else if (!must_leave(found->second)) {
      co_await port_.scheduler().sleep_for(std::min(next.at - port_.clock().now(), kLook));
    } else {
      std::vector<std::uint64_t> names = take_due();
      co_await leave_together(std::move(names));
    }
  }
  due_ = {};
  sweeping_ = false;
  --background_;
}

std::vector<std::uint64_t> TableCore::take_due() {
  const Instant until = port_.clock().now() + options_.write_back / kEarly;
  std::vector<std::uint64_t> out;
  for (; !due_.empty() && due_.top().at <= until; due_.pop()) {
    const auto found = lanes_.find(due_.top().lane);
    if (found == lanes_.end() || found->second.led || found->second.due != due_.top().at) continue;
    found->second.led = true;
    found->second.due = port_.clock().now();
    out.push_back(found->first);
  }
  return out;
}

Task<void> TableCore::leave_together(std::vector<std::uint64_t> names) {
  ++background_;
  std::ranges::sort(names);
  for (std::size_t first = 0; first < names.size(); first += kLeaving) {
    const std::span<const std::uint64_t> some =
        std::span(names).subspan(first).first(std::min(kLeaving, names.size() - first));
    co_await see_words(some);
    Countdown countdown{.left = some.size()};
    for (const std::uint64_t name : some) port_.scheduler().spawn(drain(name, &countdown));
    co_await countdown;
  }
  --background_;
}

Task<void> TableCore::see_words(std::span<const std::uint64_t> names) {
  struct Run {
    std::uint64_t first = 0;  // bucket
    std::vector<std::uint64_t> words;
  };
  const ArrayWord array = current_;
  std::vector<Run> runs;
  for (const std::uint64_t name : names) {
    const std::uint64_t index = bucket_index(name);
    if (name != bucket_name(array.log2, index)) continue;  // Of a table that was smaller.
    if (runs.empty() || index - runs.back().first >= runs.back().words.size() + kGapWords ||
        index - runs.back().first >= kMaxRunWords) {
      runs.push_back({.first = index, .words = {}});
    }
    runs.back().words.resize(index - runs.back().first + 1);
  }
  std::vector<remote::VectorPiece> pieces;
  for (Run& run : runs) {
    pieces.push_back({.local = fabric::LocalPiece::of(std::as_writable_bytes(std::span(run.words))),
                      .remote = at(array.word_offset(run.first))});
  }
  const auto read = co_await io_.async_read(pieces, remote::Strategy::kDoorbell, port_.deadline({}));
  if (!read) co_return;  // Who leads will meet the same.
  auto run = runs.begin();
  for (const std::uint64_t name : names) {
    const std::uint64_t index = bucket_index(name);
    if (name != bucket_name(array.log2, index)) continue;
    while (index - run->first >= run->words.size()) ++run;
    lanes_.at(name).seen = Seen{.array = array, .word = run->words[index - run->first]};
  }
}

const PendingPut* TableCore::pending(std::uint64_t hash, std::span<const std::byte> key) const {
  if (!pending_keys_.contains(hash)) return nullptr;
  const auto& puts = lanes_.at(lane_of(hash)).pending;
  const auto last = std::find_if(puts.rbegin(), puts.rend(),
                                 [&](const auto& put) { return std::ranges::equal(put->key, key); });
  return last == puts.rend() ? nullptr : last->get();
}

Task<Result<void>> TableCore::flush(Deadline deadline) {
  deadline = port_.deadline(deadline);
  // Nothing is held back while somebody waits for all of it.
  ++flushing_;
  std::vector<std::uint64_t> resting;
  for (auto& [name, lane] : lanes_) {
    if (!std::exchange(lane.led, true)) resting.push_back(name);
  }
  port_.scheduler().spawn(leave_together(std::move(resting)));
  const Result<void> left = co_await wait_until_left(deadline);
  --flushing_;
  if (!left) co_return left;
  co_return std::exchange(first_failure_, Result<void>());
}

Task<Result<void>> TableCore::wait_until_left(Deadline deadline) {
  while (pending_ != 0 || background_ != 0) {
    if (deadline.passed(port_.clock().now())) {
      co_return fail(ErrorCode::kDeadlineExceeded, "hash table: puts that have not left", pending_);
    }
    co_await port_.scheduler().sleep_for(kLook);
  }
  co_return Result<void>();
}

}  // namespace yonder::structures::internal
