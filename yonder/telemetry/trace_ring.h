#pragma once
// TraceRing: the last few thousand things a thread did, for when it stops.
//
// One thread writes fixed-size events into a ring and overwrites the oldest; any
// other thread, or a signal handler, can read the ring at any time. The writer
// never waits and never notices readers. An event that was being overwritten
// while it was read is recognised and left out.
//
// An event in memory is four 64-bit words; p is the event's position since the
// ring was made:
//
//   word 0                       word 1        word 2   word 3
//   (p + 1) << 16 | event id     time in ns    a        b         0 in word 0: being written
//
// States × operations of an entry:
//   word 0      writer of p begins   writer of p ends   reader
//   0           cannot be            p's stamp          skips it
//   a stamp     0                    cannot be          valid if the same stamp before and after
//
// I1  Words 1 to 3 change only while word 0 is 0, as seen by a reader that saw
//     one of the new words: they are stored with release after the 0, and loaded
//     with acquire before word 0 is looked at again.
// I2  A reader that saw a stamp sees words no older than it: the stamp is stored
//     with release behind them, and loaded with acquire.
// I3  A stamp is never repeated within 2^48 events, so equal stamps before and
//     after mean one event.
//
// Concurrency: record() from the owning thread; read() from any, also from a
// signal handler (no locks, no allocation).
// Lifetime: owns its memory; made once.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "yonder/base/check.h"
#include "yonder/base/time.h"
#include "yonder/sync/atomics.h"

namespace yonder::telemetry {

// What happened: an index into the name table of the TraceLog.
using TraceEventId = std::uint16_t;

struct TraceEvent {
  std::uint64_t position = 0;  // Since the ring was made; gaps are lost events.
  Instant time;
  TraceEventId id = 0;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
};

template <typename Atomics = sync::StdAtomics>
class BasicTraceRing {
 public:
  // Keeps the last `capacity` events. Requires a power of two (checked).
  explicit BasicTraceRing(std::size_t capacity)
      : mask_(capacity - 1), entries_(std::make_unique<Entry[]>(capacity)) {
    YONDER_CHECK(std::has_single_bit(capacity), "capacity is a power of two");
  }

  std::size_t capacity() const { return mask_ + 1; }

  // The owner. A handful of plain stores.
  void record(Instant time, TraceEventId id, std::uint64_t a = 0, std::uint64_t b = 0) {
    const std::uint64_t position = next_.load(std::memory_order_relaxed);  // Only the owner writes it.
    Entry& entry = entries_[position & mask_];
    entry[0].store(0, std::memory_order_relaxed);  // Ordered before the words by their release (I1).
    entry[1].store(static_cast<std::uint64_t>(time.ns()), std::memory_order_release);
    entry[2].store(a, std::memory_order_release);
    entry[3].store(b, std::memory_order_release);
    entry[0].store((position + 1) << 16 | id, std::memory_order_release);  // I2
    // release: a reader that sees the count finds the event (or a newer one) in its place.
    next_.store(position + 1, std::memory_order_release);
  }

  // How many events were recorded so far.
  std::uint64_t recorded() const { return next_.load(std::memory_order_acquire); }

  // The event at `position`, if it is still there and was not being overwritten.
  std::optional<TraceEvent> read(std::uint64_t position) const {
    const Entry& entry = entries_[position & mask_];
    const std::uint64_t stamp = entry[0].load(std::memory_order_acquire);  // I2
    if (stamp >> 16 != position + 1) return std::nullopt;
    const TraceEvent event{
        .position = position,
        .time = Instant::from_ns(static_cast<std::int64_t>(entry[1].load(std::memory_order_acquire))),
        .id = static_cast<TraceEventId>(stamp & 0xffff),
        .a = entry[2].load(std::memory_order_acquire),
        .b = entry[3].load(std::memory_order_acquire)};
    // Relaxed: the acquire loads above keep it behind them (I1).
    if (entry[0].load(std::memory_order_relaxed) != stamp) return std::nullopt;
    return event;
  }

  // Calls visit(event) for what is there, oldest first.
  template <typename Visit>
  void for_each(Visit visit) const {
    const std::uint64_t end = recorded();
    for (std::uint64_t position = end > capacity() ? end - capacity() : 0; position < end; ++position)
      if (const std::optional<TraceEvent> event = read(position)) visit(*event);
  }

 private:
  using Word = typename Atomics::template Atomic<std::uint64_t>;
  using Entry = std::array<Word, 4>;

  const std::size_t mask_;
  const std::unique_ptr<Entry[]> entries_;
  alignas(sync::kNoSharingBytes) Word next_{0};
};

using TraceRing = BasicTraceRing<>;
static_assert(sizeof(std::array<std::atomic<std::uint64_t>, 4>) == 32, "the drawing: four words");

}  // namespace yonder::telemetry
