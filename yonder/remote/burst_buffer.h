#pragma once
// A burst buffer: small writes to the same aligned region of remote memory are held
// back and leave as one (paper 002, section III-C, IO consolidation).
//
//   auto buffer = remote::BurstBuffer::create(fabric, port, token, {.sole_writer = true}).value();
//   remote::BurstWriter writer = buffer->writer();
//   co_await writer.async_write(4096, bytes);      // held
//   co_await buffer->async_read(4096, out);        // sees it
//   co_await writer.async_flush();                 // at the target, or an error
//   co_await buffer->async_close();
//
// Remote memory is seen in regions of `region_bytes` (S). A region with changes that
// wait is a *burst*. It leaves when it has `threshold` changes (θ), when its oldest
// change is `lease` old, when it is flushed, or when its memory is needed: at most
// `max_regions` bursts are kept. The write that makes a burst leave waits for it.
//
//   who else writes there   what leaves
//   nobody (sole_writer)    the bytes from the first to the last change, in one request;
//                           those between come from the background, read once
//   others                  the changed bytes and no others, in one post
//
// What holds:
//   B1  A read returns what was written through this buffer before it, held or not.
//   B2  Writes of one byte reach the target in the order in which they were made.
//       Bursts leave one group after the other, all that are due together.
//   B3  An accepted write is at the target once a flush after it, or close, succeeds.
//       Nothing is lost on an orderly close.
//   B4  A burst that could not be written is dropped, and exactly the writers who have a
//       change in it are told, once each, by their next call.
//   B5  The lease is kept while somebody runs the scheduler.
// A write may span regions; its parts may then leave at different times.
//
// Concurrency: the port's thread; its coroutines may share a buffer and its writers.
// Lifetime: fabric and port outlive the buffer, writers and tasks do not. The
// destructor checks that nothing waits: close, or abandon, first.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/fabric/fabric.h"
#include "yonder/remote/buffer_pool.h"
#include "yonder/remote/port.h"
#include "yonder/remote/turn.h"
#include "yonder/remote/vector_io.h"

namespace yonder::remote {

namespace internal {
class Burst;
class BurstTable;
struct WriterState;
}  // namespace internal

// A range of offsets in the target's region.
struct ByteRange {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

enum class Hold : std::uint8_t {
  kAll,     // every region
  kHinted,  // regions that a hint touches; other writes go through at once
};

struct BurstOptions {
  std::uint32_t region_bytes = 1024;  // S
  std::uint32_t threshold = 16;       // θ, at least 1
  Duration lease = std::chrono::milliseconds(1);
  std::uint32_t max_regions = 64;
  bool sole_writer = false;
  Hold hold = Hold::kAll;
  std::uint32_t max_hints = 64;
};

struct BurstStats {
  std::uint64_t writes = 0;    // parts within one region
  std::uint64_t through = 0;   // … of these, not held
  std::uint64_t bursts = 0;    // that left
  std::uint64_t requests = 0;  // that carried them
  std::uint64_t failed = 0;    // bursts that were dropped
};

class BurstBuffer;

// Somebody who writes through a buffer and wants to know what became of it.
class BurstWriter {
 public:
  // Accepts the bytes; they are copied. kOutOfBounds, kClosed; what an earlier write of
  // this writer failed with (B4).
  Task<Result<void>> async_write(std::uint64_t offset, std::span<const std::byte> bytes,
                                 Deadline deadline = {});
  // Sends every burst that has a change of ours. The error of any that failed (B4).
  Task<Result<void>> async_flush(Deadline deadline = {});
  Result<void> write(std::uint64_t offset, std::span<const std::byte> bytes, Deadline deadline = {});
  Result<void> flush(Deadline deadline = {});

 private:
  friend class BurstBuffer;
  BurstWriter(BurstBuffer& buffer, std::shared_ptr<internal::WriterState> state)
      : buffer_(&buffer), state_(std::move(state)) {}

  BurstBuffer* buffer_;
  std::shared_ptr<internal::WriterState> state_;
};

class BurstBuffer {
 public:
  // kInvalidArgument for options that make no sense; errors of registering memory.
  static Result<std::unique_ptr<BurstBuffer>> create(fabric::Fabric& fabric, Port port,
                                                     const fabric::RegionToken& token,
                                                     const BurstOptions& options = {});
  ~BurstBuffer();
  BurstBuffer(const BurstBuffer&) = delete;
  BurstBuffer& operator=(const BurstBuffer&) = delete;

  BurstWriter writer();

  // B1. kOutOfBounds, kClosed; errors of the fabric.
  Task<Result<void>> async_read(std::uint64_t offset, std::span<std::byte> out, Deadline deadline = {});
  // Sends all bursts, or those that touch the range. The first error of any; the writers
  // concerned are told as well.
  Task<Result<void>> async_flush(Deadline deadline = {});
  Task<Result<void>> async_flush(ByteRange range, Deadline deadline = {});
  // Flushes and takes no further writes. With an error, what failed is lost.
  Task<Result<void>> async_close(Deadline deadline = {});

  Result<void> read(std::uint64_t offset, std::span<std::byte> out, Deadline deadline = {}) {
    return port_.run(async_read(offset, out, deadline));
  }
  Result<void> flush(Deadline deadline = {}) { return port_.run(async_flush(deadline)); }
  Result<void> flush(ByteRange range, Deadline deadline = {}) {
    return port_.run(async_flush(range, deadline));
  }
  Result<void> close(Deadline deadline = {}) { return port_.run(async_close(deadline)); }

  // Writes to this range will be many: hold them. Bounded: kResourceExhausted.
  Result<void> hint(ByteRange range);
  // Drops what waits, for those who do not care any more.
  void abandon();

  // Bursts that wait.
  std::size_t pending() const { return held_.size(); }
  const BurstStats& stats() const { return stats_; }

 private:
  friend class BurstWriter;
  using WriterPtr = std::shared_ptr<internal::WriterState>;
  // Lets the sweeper, which the scheduler owns, notice that the buffer is gone.
  struct Anchor {
    BurstBuffer* buffer;
  };
  // Which bursts a flight takes.
  struct Which {
    ByteRange range{0, UINT64_MAX};
    const internal::WriterState* writer = nullptr;  // Null: of anybody.
    bool only_due = false;                          // those that reached θ or their lease
    bool only_oldest = false;
  };

  BurstBuffer(std::unique_ptr<BufferPool> pool, Port port, const fabric::RegionToken& token,
              const BurstOptions& options);

  Task<Result<void>> write(WriterPtr writer, std::uint64_t offset, std::span<const std::byte> bytes,
                           Deadline deadline);
  Task<Result<void>> write_part(WriterPtr writer, std::uint64_t offset, std::span<const std::byte> bytes,
                                Deadline deadline);
  Task<Result<void>> flush_of(WriterPtr writer, Deadline deadline);
  bool keep(internal::Burst& burst, const WriterPtr& writer, std::uint64_t offset,
            std::span<const std::byte> bytes);
  // A burst for the place, in the table. Requires the turn of admissions_.
  Task<Result<void>> admit(std::uint64_t place, Deadline deadline);
  Task<Result<void>> fetch_background(internal::Burst& burst, Deadline deadline);
  // Sends the bursts that `which` names when its turn comes.
  Task<Result<void>> fly(Which which, Deadline deadline);
  Task<Result<void>> send(std::span<internal::Burst* const> bursts, Deadline deadline);

  Result<void> check(std::uint64_t offset, std::uint64_t bytes) const;
  bool is_held_place(std::uint64_t place) const;
  bool matches(const internal::Burst& burst, const Which& which, Instant now) const;
  bool is_due(const internal::Burst& burst, Instant now) const;
  void take_off(const Which& which);
  void settle(internal::Burst& burst, const Result<void>& result);
  void free(internal::Burst& burst);
  internal::Burst* try_take_free();
  bool overlay(std::uint64_t offset, std::span<std::byte> out) const;
  void add_pieces(const internal::Burst& burst);
  void arm_sweeper();
  static Task<void> sweep(Port port, std::shared_ptr<Anchor> anchor);
  Instant next_lease_end() const;

  const Port port_;
  const fabric::RegionToken token_;
  const BurstOptions options_;
  const std::unique_ptr<BufferPool> pool_;
  std::vector<PooledBuffer> memory_;  // of the bursts
  VectorIo io_;
  std::vector<std::unique_ptr<internal::Burst>> bursts_;
  const std::unique_ptr<internal::BurstTable> table_;
  std::vector<internal::Burst*> free_;
  std::deque<internal::Burst*> held_;     // the oldest first
  std::deque<internal::Burst*> clean_;    // the oldest first
  std::vector<internal::Burst*> flying_;  // one group, in the order of their changes
  std::vector<VectorPiece> pieces_;       // of that group
  std::vector<ByteRange> hints_;
  Turn flights_;     // B2: one group after the other
  Turn admissions_;  // one new burst after the other: a place has one at most
  bool is_closed_ = false;
  bool has_sweeper_ = false;
  std::shared_ptr<Anchor> anchor_;
  BurstStats stats_;
};

}  // namespace yonder::remote
