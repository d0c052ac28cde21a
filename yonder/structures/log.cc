#include "yonder/structures/log.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "yonder/base/check.h"
#include "yonder/remote/chain.h"
#include "yonder/structures/internal/log_unit.h"

namespace yonder::structures {

using fabric::LocalPiece;
using internal::LogShape;
using internal::SlotKind;
using internal::SlotState;
using remote::Chain;
using remote::PooledBuffer;

namespace {

// A buffer holds one unit; so many appends may be under way on one log object.
constexpr std::uint32_t kLogBuffers = 16;
constexpr std::uint32_t kBufferBytes = 64 * 1024;
// A unit never takes more of the ring: several writers and a reader find room in it.
constexpr std::uint64_t kMaxUnitShare = 4;
// An append that was overtaken so often has a lease that does not fit its network.
constexpr int kMaxAttempts = 32;
// Words looked at in one step of trimming.
constexpr std::size_t kTrimWords = 512;
constexpr Duration kPause = std::chrono::microseconds(20);

Result<LogShape> shape_of(const LogOptions& options) {
  if (options.slots < 64 || options.slots > std::uint64_t{1} << 36) {
    return fail(ErrorCode::kInvalidArgument, "log: its slots", options.slots);
  }
  if (!std::has_single_bit(options.slot_bytes) || options.slot_bytes < 64 || options.slot_bytes > 64 * 1024) {
    return fail(ErrorCode::kInvalidArgument, "log: bytes of a slot", options.slot_bytes);
  }
  const auto lease = std::chrono::duration_cast<std::chrono::microseconds>(options.lease).count();
  if (lease < 10) return fail(ErrorCode::kInvalidArgument, "log: a lease below 10 µs");
  LogShape shape{.slots = options.slots,
                 .lease_us = static_cast<std::uint64_t>(lease),
                 .slot_bytes = options.slot_bytes};
  shape.check = shape.expected_check();
  return shape;
}

// A peer wrote it.
bool makes_sense(const LogShape& shape, const RegionToken& token) {
  if (shape.check != shape.expected_check()) return false;
  const LogOptions options{
      .slots = shape.slots,
      .slot_bytes = shape.slot_bytes,
      .lease = std::chrono::microseconds(std::min<std::uint64_t>(shape.lease_us, 1ULL << 40))};
  return shape_of(options).has_value() && shape.bytes() <= token.length;
}

Result<void> check_log_rights(const RegionToken& token) {
  if (fabric::allows(token.rights, fabric::Rights::kAll)) return {};
  return fail(ErrorCode::kInvalidArgument, "log: its memory must be readable, writable and allow atomics");
}

Duration lease_of(const LogShape& shape) { return std::chrono::microseconds(shape.lease_us); }

}  // namespace

std::uint64_t Log::bytes_for(const LogOptions& options) {
  const Result<LogShape> shape = shape_of(options);
  YONDER_CHECK(shape.has_value(), "the options of a log make sense");
  return shape->bytes();
}

Task<Result<void>> Log::async_create(remote::Port port, RegionToken token, LogOptions options,
                                     Deadline deadline) {
  const Result<LogShape> shape = shape_of(options);
  if (!shape) co_return std::unexpected(shape.error());
  if (const auto rights = check_log_rights(token); !rights) co_return rights;
  if (shape->bytes() > token.length) {
    co_return fail(ErrorCode::kInvalidArgument, "log: it needs so many bytes", shape->bytes());
  }
  const auto before =
      co_await port.async_compare_swap(token.at(LogShape::kMagicOffset), 0, internal::kLogMaking, deadline);
  if (!before) co_return std::unexpected(before.error());
  if (*before != 0) co_return fail(ErrorCode::kAlreadyExists, "create a log: the memory is in use");
  Chain chain(port);
  chain.write(LocalPiece::of(std::as_bytes(std::span(&*shape, 1))), token.at(LogShape::kOffset));
  chain.compare_swap(token.at(LogShape::kMagicOffset), internal::kLogMaking, internal::kLogReady);
  co_return co_await chain.run(deadline);
}

Task<Result<std::unique_ptr<Log>>> Log::async_open(fabric::Fabric& fabric, remote::Port port,
                                                   RegionToken token, Deadline deadline) {
  if (const auto rights = check_log_rights(token); !rights) co_return std::unexpected(rights.error());
  if (token.length < LogShape::kStatesOffset) co_return fail(ErrorCode::kInvalidArgument, "log: no memory");
  struct {
    std::uint64_t magic = 0;
    LogShape shape;
  } front;
  const auto read =
      co_await port.async_read(LocalPiece::of(std::as_bytes(std::span(&front, 1))), token.at(0), deadline);
  if (!read) co_return std::unexpected(read.error());
  if (front.magic == 0 || front.magic == internal::kLogMaking) {
    co_return fail(ErrorCode::kNotFound, "open a log: there is none, or it is not finished");
  }
  if (front.magic != internal::kLogReady || !makes_sense(front.shape, token)) {
    co_return fail(ErrorCode::kCorrupt, "open a log: something else is there");
  }
  auto pool = remote::BufferPool::create(fabric, {.buffers = kLogBuffers, .buffer_bytes = kBufferBytes});
  if (!pool) co_return std::unexpected(pool.error());
  std::unique_ptr<Log> log(new Log(port, token, front.shape, *std::move(pool)));
  const auto bounds = co_await log->refresh_bounds(deadline);
  if (!bounds) co_return std::unexpected(bounds.error());
  co_return log;
}

Log::Log(remote::Port port, const RegionToken& token, const LogShape& shape,
         std::unique_ptr<remote::BufferPool> pool)
    : port_(port), token_(token), shape_(shape), pool_(std::move(pool)) {}

Log::~Log() = default;

std::uint64_t Log::max_append_bytes() const {
  const std::uint64_t share = shape_.slots / kMaxUnitShare * shape_.slot_bytes;
  return std::min<std::uint64_t>(share, kBufferBytes) - sizeof(internal::UnitHead);
}

// ---------------------------------------------------------------- append

Result<Log::Unit> Log::measure(std::span<const std::span<const std::byte>> records,
                               const AppendOptions& options) const {
  if (records.empty()) return fail(ErrorCode::kInvalidArgument, "append no records");
  std::uint64_t bytes = 4 * records.size();
  const std::uint64_t limit = max_append_bytes();
  for (const auto& record : records) {
    // Each by itself: their sum must not overflow.
    if (record.size() > limit) return fail(ErrorCode::kLengthInvalid, "append more than fits", record.size());
    bytes += record.size();
  }
  if (bytes > limit) return fail(ErrorCode::kLengthInvalid, "append more than fits", bytes);
  const std::uint64_t whole = sizeof(internal::UnitHead) + bytes;
  return Unit{.records = records,
              .options = options,
              .bytes = static_cast<std::uint32_t>(bytes),
              .slots = (whole + shape_.slot_bytes - 1) / shape_.slot_bytes};
}

Task<Result<LogPosition>> Log::async_append_many(std::span<const std::span<const std::byte>> records,
                                                 AppendOptions options) {
  const Result<Unit> unit = measure(records, options);
  if (!unit) co_return std::unexpected(unit.error());
  const Deadline deadline = port_.deadline(options.deadline);
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    // Before the reservation can be seen by anybody: L4 counts from here.
    const Deadline usable = Deadline::after(port_.clock(), lease_of(shape_) / 2);
    const auto slot = co_await reserve(unit->slots, deadline);
    if (!slot) co_return std::unexpected(slot.error());
    const auto room = co_await wait_for_room(*slot + unit->slots, Deadline::earlier(usable, deadline));
    if (!room && room.error() != ErrorCode::kDeadlineExceeded) co_return std::unexpected(room.error());
    if (deadline.passed(port_.clock().now())) {
      co_return fail(room ? ErrorCode::kDeadlineExceeded : ErrorCode::kResourceExhausted,
                     "append: until the log has room", *slot);
    }
    if (!room || usable.passed(port_.clock().now())) continue;
    const auto committed = co_await write_unit(*unit, *slot, deadline);
    if (!committed) co_return std::unexpected(committed.error());
    if (*committed) {
      ++stats_.appends;
      stats_.records += records.size();
      co_return LogPosition{.slot = *slot};
    }
    ++stats_.overtaken;
  }
  co_return fail(ErrorCode::kResourceExhausted, "append: overtaken by the lease each time", kMaxAttempts);
}

Task<Result<LogPosition>> Log::async_append(std::span<const std::byte> record, Deadline deadline) {
  co_return co_await async_append_many(std::span(&record, 1), {.deadline = deadline});
}

Task<Result<std::uint64_t>> Log::reserve(std::uint64_t slots, Deadline deadline) {
  // A reservation cannot be taken back, so it is not made when there is no room for it.
  if (seen_tail_ + slots > seen_head_ + shape_.slots) {
    const auto refreshed = co_await refresh_bounds(deadline);
    if (!refreshed) co_return std::unexpected(refreshed.error());
    if (seen_tail_ + slots > seen_head_ + shape_.slots) {
      co_return fail(ErrorCode::kResourceExhausted, "append: the log is full", seen_tail_ - seen_head_);
    }
  }
  const auto slot = co_await port_.async_fetch_add(token_.at(LogShape::kTailOffset), slots, deadline);
  if (slot) seen_tail_ = std::max(seen_tail_, *slot + slots);
  co_return slot;
}

Task<Result<void>> Log::wait_for_room(std::uint64_t end, Deadline deadline) {
  while (end > seen_head_ + shape_.slots) {
    const auto refreshed = co_await refresh_bounds(deadline);
    if (!refreshed) co_return refreshed;
    if (end <= seen_head_ + shape_.slots) break;
    if (deadline.passed(port_.clock().now())) co_return fail(ErrorCode::kDeadlineExceeded, "append: room");
    co_await port_.scheduler().sleep_for(kPause);
  }
  co_return Result<void>();
}

Task<Result<void>> Log::refresh_bounds(Deadline deadline) {
  constexpr std::uint64_t kBytes = LogShape::kHeadOffset + 8 - LogShape::kTailOffset;
  std::array<std::uint64_t, kBytes / 8> words = {};
  const auto read = co_await port_.async_read(LocalPiece::of(std::as_bytes(std::span(words))),
                                              token_.at(LogShape::kTailOffset), deadline);
  if (!read) co_return read;
  // Answers of several coroutines may overtake each other.
  seen_tail_ = std::max(seen_tail_, words.front());
  seen_head_ = std::max(seen_head_, words.back());
  if (seen_head_ > seen_tail_)
    co_return fail(ErrorCode::kCorrupt, "log: it begins after its end", seen_head_);
  co_return Result<void>();
}

Task<Result<PooledBuffer>> Log::take_buffer(Deadline deadline) {
  for (;;) {
    if (auto buffer = pool_->try_take()) co_return *std::move(buffer);
    if (deadline.passed(port_.clock().now())) {
      co_return fail(ErrorCode::kResourceExhausted, "append: too many are under way", kLogBuffers);
    }
    co_await port_.scheduler().sleep_for(kPause);
  }
}

Task<Result<bool>> Log::write_unit(const Unit& unit, std::uint64_t slot, Deadline deadline) {
  auto buffer = co_await take_buffer(deadline);
  if (!buffer) co_return std::unexpected(buffer.error());
  const std::uint64_t to_ring_end = (shape_.slots - shape_.ring(slot)) * shape_.slot_bytes;
  internal::UnitWriter writer(slot, unit.bytes, unit.records, buffer->bytes());
  // The head and the lengths are one piece more.
  const bool gather = unit.options.batching == LogBatching::kGather &&
                      sizeof(internal::UnitHead) + unit.bytes <= to_ring_end &&
                      unit.records.size() < port_.endpoint().limits().max_pieces;
  std::array<LocalPiece, fabric::kMaxPieces> pieces;
  std::size_t count = 0;
  std::span<std::byte> packed;
  if (gather) {
    count = writer.gather(pieces, pool_->key(), unit.options.key);
  } else {
    packed = writer.pack();
    port_.queue().charge_copy(unit.records.size(), packed.size());
  }
  const SlotState state{.kind = SlotKind::kCommitted, .lap = shape_.lap(slot), .unit_slots = unit.slots};
  Chain chain(port_);
  if (gather) {
    chain.write(std::span(pieces).first(count), token_.at(shape_.data_offset(slot)));
  } else {
    const std::span<std::byte> front = packed.first(std::min<std::uint64_t>(to_ring_end, packed.size()));
    chain.write(LocalPiece::of(front, pool_->key()), token_.at(shape_.data_offset(slot)));
    chain.write(LocalPiece::of(packed.subspan(front.size()), pool_->key()), token_.at(shape_.data_begin()));
  }
  chain.compare_swap(token_.at(shape_.state_offset(slot)), 0, state.word());
  const std::size_t commit = chain.size() - 1;
  const auto done = co_await chain.run(deadline);
  if (done) co_return co_await settle(slot, state, chain.value(commit), deadline);
  const bool committed = chain.status(commit) == ErrorCode::kOk && chain.value(commit) == 0;
  if (!committed) co_return std::unexpected(done.error());
  const auto whole = co_await is_whole(unit, slot, deadline);
  if (whole && *whole) co_return true;
  // Nobody could read it, and nobody shall wait for it.
  if (whole) (void)co_await seal(slot, state.word(), unit.slots, deadline);
  co_return std::unexpected(done.error());
}

Task<Result<bool>> Log::is_whole(const Unit& unit, std::uint64_t slot, Deadline deadline) {
  std::vector<std::byte> bytes(unit.slots * shape_.slot_bytes);
  const std::uint64_t front =
      std::min<std::uint64_t>(bytes.size(), (shape_.slots - shape_.ring(slot)) * shape_.slot_bytes);
  Chain chain(port_);
  chain.read(LocalPiece::of(std::span(bytes).first(front)), token_.at(shape_.data_offset(slot)));
  chain.read(LocalPiece::of(std::span(bytes).subspan(front)), token_.at(shape_.data_begin()));
  const auto read = co_await chain.run(deadline);
  if (!read) co_return std::unexpected(read.error());
  std::vector<std::span<const std::byte>> records;
  co_return internal::parse_unit(slot, bytes, records).has_value();
}

Task<Result<bool>> Log::settle(std::uint64_t slot, SlotState state, std::uint64_t before, Deadline deadline) {
  // Words of earlier laps change only to 0 or to words of this one: at most twice.
  for (int i = 0; i < 3 && before != 0; ++i) {
    const SlotState found = SlotState::of(before, state.lap);
    if (found.kind == SlotKind::kSealed && found.lap == state.lap) co_return false;
    if (found.kind != SlotKind::kEmpty) {
      co_return fail(ErrorCode::kCorrupt, "append: somebody else has the slot", slot);
    }
    const auto word = co_await port_.async_compare_swap(token_.at(shape_.state_offset(slot)), before,
                                                        state.word(), deadline);
    if (!word) co_return std::unexpected(word.error());
    if (*word == before) co_return true;
    before = *word;
    if (before != 0) continue;
    const auto again =
        co_await port_.async_compare_swap(token_.at(shape_.state_offset(slot)), 0, state.word(), deadline);
    if (!again) co_return std::unexpected(again.error());
    before = *again;
  }
  if (before != 0) co_return fail(ErrorCode::kCorrupt, "append: the slot does not keep still", slot);
  co_return true;
}

Task<Result<void>> Log::seal(std::uint64_t slot, std::uint64_t word, std::uint64_t slots, Deadline deadline) {
  const SlotState sealed{.kind = SlotKind::kSealed, .lap = shape_.lap(slot), .unit_slots = slots};
  const auto before =
      co_await port_.async_compare_swap(token_.at(shape_.state_offset(slot)), word, sealed.word(), deadline);
  if (!before) co_return std::unexpected(before.error());
  if (*before == word) ++stats_.sealed;
  co_return Result<void>();
}

// ---------------------------------------------------------------- trim

Task<Result<Log::Bounds>> Log::async_bounds(Deadline deadline) {
  const auto refreshed = co_await refresh_bounds(deadline);
  if (!refreshed) co_return std::unexpected(refreshed.error());
  co_return Bounds{.begin = {.slot = seen_head_}, .end = {.slot = seen_tail_}};
}

Task<Result<void>> Log::read_states(std::uint64_t slot, std::span<std::uint64_t> words, Deadline deadline) {
  const std::uint64_t front = std::min<std::uint64_t>(words.size(), shape_.slots - shape_.ring(slot));
  Chain chain(port_);
  chain.read(LocalPiece::of(std::as_bytes(words.first(front))), token_.at(shape_.state_offset(slot)));
  chain.read(LocalPiece::of(std::as_bytes(words.subspan(front))), token_.at(LogShape::kStatesOffset));
  co_return co_await chain.run(deadline);
}

std::uint64_t Log::trimmable(const LogShape& shape, std::uint64_t begin, std::uint64_t end,
                             std::span<const std::uint64_t> words) {
  std::uint64_t slot = begin;
  while (slot < end && slot - begin < words.size()) {
    const SlotState state = SlotState::of(words[slot - begin], shape.lap(slot));
    if (state.kind == SlotKind::kEmpty || state.lap != shape.lap(slot)) break;
    const std::uint64_t next = slot + std::max<std::uint64_t>(state.unit_slots, 1);
    if (next > end) break;
    slot = next;
  }
  return slot;
}

Task<Result<void>> Log::clear_states(std::uint64_t begin, std::uint64_t end,
                                     std::span<const std::uint64_t> words, Deadline deadline) {
  for (std::uint64_t slot = begin; slot < end && slot - begin < words.size();) {
    Chain chain(port_);
    for (; slot < end && slot - begin < words.size() && chain.size() < Chain::kMaxLinks; ++slot) {
      const std::uint64_t word = words[slot - begin];
      if (SlotState::of(word, shape_.lap(slot)).kind == SlotKind::kEmpty) continue;
      chain.compare_swap(token_.at(shape_.state_offset(slot)), word, 0);
    }
    if (const auto done = co_await chain.run(deadline); !done) co_return done;
  }
  co_return Result<void>();
}

Task<Result<LogPosition>> Log::async_trim(LogPosition until, Deadline deadline) {
  deadline = port_.deadline(deadline);
  std::vector<std::uint64_t> words(std::min<std::uint64_t>(kTrimWords, shape_.slots));
  for (;;) {
    const auto refreshed = co_await refresh_bounds(deadline);
    if (!refreshed) co_return std::unexpected(refreshed.error());
    const std::uint64_t begin = seen_head_;
    const std::uint64_t end = std::min(until.slot, seen_tail_);
    if (begin >= end) break;
    if (const auto read = co_await read_states(begin, words, deadline); !read) {
      co_return std::unexpected(read.error());
    }
    const std::uint64_t moved = trimmable(shape_, begin, end, words);
    if (moved == begin) break;
    const auto before =
        co_await port_.async_compare_swap(token_.at(LogShape::kHeadOffset), begin, moved, deadline);
    if (!before) co_return std::unexpected(before.error());
    if (*before != begin) continue;  // Somebody else trims too.
    seen_head_ = std::max(seen_head_, moved);
    if (const auto cleared = co_await clear_states(begin, moved, words, deadline); !cleared) {
      co_return std::unexpected(cleared.error());
    }
  }
  co_return LogPosition{.slot = seen_head_};
}

std::unique_ptr<LogReader> Log::reader(LogPosition from) {
  return std::unique_ptr<LogReader>(new LogReader(*this, from));
}

}  // namespace yonder::structures
