#pragma once
// Log: an append-only, totally ordered sequence of records in remote memory, written and
// read by many at once without the node's processor.
//
//   Log::create(port, token, {.slots = 1 << 20});                       // once
//   auto log = Log::open(fabric, port, token).value();
//   LogPosition at = log->append(record).value();                       // one record
//   log->append_many(records);                                          // one trip for all
//   auto reader = log->reader(LogPosition());
//   for (const LogRecord& record : reader->next(deadline).value()) …    // tails it
//
// Implements paper 002, IV-E: space is reserved by a remote fetch-and-add, records are
// written one-sidedly. What the paper leaves out is here: dead writers, readers, a ring
// that is used again, a log that is full.
//
// A log is a ring of `slots` slots of `slot_bytes`. The records of one append form a
// *unit* in consecutive slots. Slot numbers grow for ever; slot n lies at n mod slots,
// in lap n / slots.
//
//   tail     word: the next slot nobody has reserved
//   head     word: slots below are trimmed; space is free up to head + slots
//   states   a word for each slot of the ring
//   data     the slots
//
// What a state word says of the slot that begins there. A word of an earlier lap says
// nothing any more: it counts as empty.
//
//   state      | append (its owner)      | seal                     | trim          | read
//   -----------+-------------------------+--------------------------+---------------+----------
//   empty      | → committed             | → sealed, when the lease | stops here    | waits
//              |                         | has passed               |               |
//   committed  | (L5: → sealed)          | –                        | head moves on | its unit
//   sealed     | takes another slot      | –                        | head moves on | skips it
//
// Every arrow is a compare-and-swap, and words carry their lap, so nobody who is late can
// take a step that belongs to another time.
//   L1  An append is acknowledged when its word became committed, which comes after its
//       data at the target (E1). So no half record is ever visible, and an acknowledged
//       record is found by every reader, until it is trimmed.
//   L2  Records of one append stand together; what was appended after another append was
//       acknowledged stands behind it.
//   L3  A reserved slot that stays empty for longer than the lease, by a reader's own
//       clock, is sealed, one slot after the other; so a dead writer stops nobody. A
//       writer that was only slow finds its slot sealed and appends elsewhere.
//   L4  Data is written only into slots that the append has reserved, when they are free
//       (below head + slots) and within half a lease of asking for them. Sealing comes a
//       whole lease after the reservation at the earliest, and reuse after that. (A thread
//       that is stopped between that look at the clock and its doorbell, or a network that
//       delivers later than the request's deadline, for long enough that the slot was
//       sealed, trimmed, and used by another, would overwrite it: no NIC can refuse that.
//       The checksum then says kCorrupt; wrong bytes are never returned.)
//   L5  Data is not changed after its word was committed. An append whose data may have
//       been lost on the way while its word was committed looks: if they are there it is
//       acknowledged, else it seals its unit, which nobody could read. Readers wait a
//       lease for that before they say kCorrupt.
//   L6  A unit has a checksum over its slot number and bytes: a reader that is overtaken
//       by a trim sees that it was.
// Trimming moves the head first and makes the words 0 afterwards, only because an append
// that finds 0 needs no second try.
//
// A full log refuses (kResourceExhausted) until it is trimmed. Space that was reserved in
// a race for the last slots, and given up, is sealed like a dead writer's.
//
// Concurrency: the port's thread; its coroutines may append and read at once. Any number
// of logs on one memory, in any processes.
// Lifetime: fabric and port outlive the log, the log its readers; tasks end before both.
// Spans are borrowed until the call, or the awaited task, has ended.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/fabric/fabric.h"
#include "yonder/fabric/types.h"
#include "yonder/remote/buffer_pool.h"
#include "yonder/remote/port.h"
#include "yonder/structures/internal/log_layout.h"

namespace yonder::structures {

using fabric::RegionToken;
using fabric::Task;

struct LogOptions {
  std::uint64_t slots = std::uint64_t{1} << 16;  // at least 64
  std::uint32_t slot_bytes = 64;                 // a power of two from 64 to 64 KiB
  // How long a reserved slot may stay empty before readers seal it.
  Duration lease = std::chrono::milliseconds(100);
};

// Where a record is: the slot its unit begins in, and its number within the unit. Grows
// along the log; may be stored.
struct LogPosition {
  std::uint64_t slot = 0;
  std::uint32_t index = 0;
  friend constexpr auto operator<=>(const LogPosition&, const LogPosition&) = default;
};

struct LogRecord {
  LogPosition position;
  std::span<const std::byte> bytes;
};

// How the records of an append reach the wire.
enum class LogBatching : std::uint8_t {
  kPack,    // SP: copied into one buffer
  kGather,  // SGL: the NIC collects them, where they are few enough for one request
};

struct AppendOptions {
  LogBatching batching = LogBatching::kPack;
  fabric::LocalKey key = fabric::kUnregistered;  // Of the records' memory, for kGather.
  Deadline deadline;
};

struct LogStats {
  std::uint64_t appends = 0;    // acknowledged
  std::uint64_t records = 0;    // … in them
  std::uint64_t overtaken = 0;  // appends that found their slot sealed and went elsewhere
  std::uint64_t sealed = 0;     // slots that we sealed
};

class LogReader;

class Log {
 public:
  // The bytes of memory a log takes. Requires options that create() accepts (checked).
  static std::uint64_t bytes_for(const LogOptions& options);

  // Makes a log in memory that is all zero. kInvalidArgument (options, or the token lacks
  // a right or bytes), kAlreadyExists (something is there).
  static Task<Result<void>> async_create(remote::Port port, RegionToken token, LogOptions options,
                                         Deadline deadline = {});
  static Result<void> create(remote::Port port, const RegionToken& token, const LogOptions& options,
                             Deadline deadline = {}) {
    return port.run(async_create(port, token, options, deadline));
  }
  // kNotFound (nothing is there, or its maker has not finished), kCorrupt, kInvalidArgument
  // (the token lacks a right).
  static Task<Result<std::unique_ptr<Log>>> async_open(fabric::Fabric& fabric, remote::Port port,
                                                       RegionToken token, Deadline deadline = {});
  static Result<std::unique_ptr<Log>> open(fabric::Fabric& fabric, remote::Port port,
                                           const RegionToken& token, Deadline deadline = {}) {
    return port.run(async_open(fabric, port, token, deadline));
  }
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  // Returns where the first of the records is; the others have the next indexes.
  // kInvalidArgument (no records), kLengthInvalid (more bytes than max_append_bytes()),
  // kResourceExhausted (the log is full, or too many appends are under way here),
  // kDeadlineExceeded and kConnectionLost (the records may have been appended), errors of
  // the fabric.
  Task<Result<LogPosition>> async_append_many(std::span<const std::span<const std::byte>> records,
                                              AppendOptions options = {});
  Result<LogPosition> append_many(std::span<const std::span<const std::byte>> records,
                                  const AppendOptions& options = {}) {
    return port_.run(async_append_many(records, options));
  }
  // The record may be empty.
  Task<Result<LogPosition>> async_append(std::span<const std::byte> record, Deadline deadline = {});
  Result<LogPosition> append(std::span<const std::byte> record, Deadline deadline = {}) {
    return port_.run(async_append(record, deadline));
  }

  // Forgets what stands before `until`, as far as it is committed or sealed, and returns
  // where the log begins now. Several may trim at once.
  Task<Result<LogPosition>> async_trim(LogPosition until, Deadline deadline = {});
  Result<LogPosition> trim(LogPosition until, Deadline deadline = {}) {
    return port_.run(async_trim(until, deadline));
  }

  // Where the log begins, and where the next append will be.
  struct Bounds {
    LogPosition begin;
    LogPosition end;
  };
  Task<Result<Bounds>> async_bounds(Deadline deadline = {});
  Result<Bounds> bounds(Deadline deadline = {}) { return port_.run(async_bounds(deadline)); }

  // Reads from `from` on: a position of a record, of the end, or LogPosition() for the
  // beginning, wherever that is.
  std::unique_ptr<LogReader> reader(LogPosition from);

  // Of all records of one append, with 4 bytes for each.
  std::uint64_t max_append_bytes() const;
  const LogStats& stats() const { return stats_; }

 private:
  friend class LogReader;
  Log(remote::Port port, const RegionToken& token, const internal::LogShape& shape,
      std::unique_ptr<remote::BufferPool> pool);

  // An append under way.
  struct Unit {
    std::span<const std::span<const std::byte>> records;
    AppendOptions options;
    std::uint32_t bytes = 0;  // Of lengths and records.
    std::uint64_t slots = 0;
  };
  Result<Unit> measure(std::span<const std::span<const std::byte>> records,
                       const AppendOptions& options) const;
  Task<Result<std::uint64_t>> reserve(std::uint64_t slots, Deadline deadline);
  // Until the slots before `end` are free; kDeadlineExceeded.
  Task<Result<void>> wait_for_room(std::uint64_t end, Deadline deadline);
  Task<Result<void>> refresh_bounds(Deadline deadline);
  Task<Result<remote::PooledBuffer>> take_buffer(Deadline deadline);
  // Writes the unit at `slot` and commits it. False: the slot was sealed.
  Task<Result<bool>> write_unit(const Unit& unit, std::uint64_t slot, Deadline deadline);
  Task<Result<bool>> is_whole(const Unit& unit, std::uint64_t slot, Deadline deadline);
  Task<Result<bool>> settle(std::uint64_t slot, internal::SlotState state, std::uint64_t before,
                            Deadline deadline);
  // Seals `slots` slots from `slot` on if its word is still `word`.
  Task<Result<void>> seal(std::uint64_t slot, std::uint64_t word, std::uint64_t slots, Deadline deadline);
  // Reads the words of `words.size()` slots from `slot` on.
  Task<Result<void>> read_states(std::uint64_t slot, std::span<std::uint64_t> words, Deadline deadline);
  // How far the slots from `begin` on may be trimmed, at most to `end`.
  static std::uint64_t trimmable(const internal::LogShape& shape, std::uint64_t begin, std::uint64_t end,
                                 std::span<const std::uint64_t> words);
  Task<Result<void>> clear_states(std::uint64_t begin, std::uint64_t end,
                                  std::span<const std::uint64_t> words, Deadline deadline);

  const remote::Port port_;
  const RegionToken token_;
  const internal::LogShape shape_;
  const std::unique_ptr<remote::BufferPool> pool_;
  // What was last seen: only ever too old, so room is never overestimated.
  std::uint64_t seen_head_ = 0;
  std::uint64_t seen_tail_ = 0;
  LogStats stats_;
};

// A place in a log, and what lies behind it.
class LogReader {
 public:
  LogReader(const LogReader&) = delete;
  LogReader& operator=(const LogReader&) = delete;

  // The next records: at least one; they live until the next call. Waits for some, and
  // for slots that are reserved and empty. kDeadlineExceeded (none came), kNotFound (what
  // comes next was trimmed: begin again at bounds().begin), kCorrupt (a unit is damaged:
  // L4; skip() goes past it), errors of the fabric. After an error the reader is where it
  // was.
  Task<Result<std::span<const LogRecord>>> async_next(Deadline deadline = {});
  Result<std::span<const LogRecord>> next(Deadline deadline = {}) {
    return log_.port_.run(async_next(deadline));
  }
  // Goes past the unit that next() found damaged.
  void skip() { next_slot_ = after_damaged_; }

  // Of the next record that next() will give.
  LogPosition position() const { return {next_slot_, next_index_}; }

 private:
  friend class Log;
  LogReader(Log& log, LogPosition from);

  // Brings states, and data if wanted, of `slots` slots from next_slot_ on.
  Task<Result<void>> fetch(std::uint64_t slots, bool with_data, Deadline deadline);
  // Takes the units that are whole in what was fetched; says how many slots the first one
  // has that is not.
  Result<std::uint64_t> take_units();
  Result<void> take_unit(std::uint64_t slot, std::span<const std::byte> bytes);
  // kNotFound if what comes next is gone.
  Task<Result<void>> expect_untrimmed(Deadline deadline);
  // The unit at next_slot_ is damaged. `damage` if it has been for longer than the lease.
  Task<Result<void>> wait_for_repair(Error damage, Deadline deadline);
  // Nothing is at next_slot_: finds out why, and waits a little, or seals it.
  Task<Result<void>> wait_or_seal(Deadline deadline);

  Log& log_;
  std::uint64_t next_slot_;
  std::uint32_t next_index_;
  bool from_beginning_;
  std::uint64_t after_damaged_ = 0;
  // What was fetched: the slots from first_ on.
  std::uint64_t first_ = 0;
  std::vector<std::uint64_t> states_;
  std::vector<std::byte> data_;
  std::vector<LogRecord> records_;
  // Slots before known_tail_ were reserved at known_at_ or earlier.
  std::uint64_t known_tail_ = 0;
  Instant known_at_;
  std::uint64_t damaged_slot_ = UINT64_MAX;
  Instant damaged_at_;
  Duration pause_{};
};

}  // namespace yonder::structures
