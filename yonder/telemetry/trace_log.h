#pragma once
// TraceLog: the trace rings of all threads, and how to dump them.
//
//   TraceLog log(clock, {.names = kNames});
//   YONDER_TRY(trace, log.register_thread("poller"));
//   trace.record(kEventPost, key, length);
//   …
//   log.dump(STDERR_FILENO);                       // any thread, any time, also a signal handler
//   const TraceDumpOnFailure on_failure(log, STDERR_FILENO);   // when a check fails
//
// Concurrency: registering, collecting and dumping from any thread; a TraceWriter
// belongs to one thread.
// Lifetime: log > writers. A ring outlives its thread: what it did last can be
// dumped until another thread takes the ring over.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/telemetry/trace_ring.h"

namespace yonder::telemetry {

struct TraceLogOptions {
  std::size_t max_threads = 64;
  std::size_t events_per_thread = 4096;  // A power of two; 32 bytes each, made when a thread registers.
  // Literals, indexed by TraceEventId; events beyond it are shown by number.
  std::span<const char* const> names;
};

class TraceWriter;

class TraceLog {
 public:
  static constexpr std::size_t kThreadNameBytes = 16;

  // The clock outlives the log.
  TraceLog(const Clock& clock, const TraceLogOptions& options);
  TraceLog(const TraceLog&) = delete;
  TraceLog& operator=(const TraceLog&) = delete;
  // Requires that all writers are gone (checked).
  ~TraceLog();

  // A ring for the calling thread; the name is cut to 15 bytes.
  // Errors: kResourceExhausted (max_threads have one).
  Result<TraceWriter> register_thread(std::string_view name);

  struct NamedEvent {
    std::array<char, kThreadNameBytes> thread;
    TraceEvent event;
  };
  // The events of all threads by time, newest last.
  std::vector<NamedEvent> collect() const;

  // Writes them to `fd` as lines, thread by thread, oldest first:
  //   "poller #12 -0.000001024 post a=7 b=64", with times in seconds before now.
  // No allocation and no locks: may be called from a signal handler, or with any
  // lock held. Dumps that overlap are merged line by line.
  void dump(int fd) const;

 private:
  friend class TraceWriter;
  struct Slot {
    std::atomic<bool> owned{false};
    // Made by the first owner, kept until the log goes. Release on making, acquire on dumping.
    std::atomic<TraceRing*> ring{nullptr};
    std::array<std::atomic<char>, kThreadNameBytes> name{};
  };
  static void set_name(Slot& slot, std::string_view name);
  static std::array<char, kThreadNameBytes> name_of(const Slot& slot);
  std::span<Slot> slots() const { return {slots_.get(), options_.max_threads}; }
  void dump_ring(int fd, const Slot& slot, const TraceRing& ring) const;

  const Clock& clock_;
  const TraceLogOptions options_;
  const std::unique_ptr<Slot[]> slots_;
};

// The calling thread's way into the log. Move-only.
class TraceWriter {
 public:
  TraceWriter(TraceWriter&& other) noexcept
      : clock_(other.clock_), slot_(std::exchange(other.slot_, nullptr)), ring_(other.ring_) {}
  TraceWriter& operator=(TraceWriter&&) = delete;
  ~TraceWriter();

  void record(TraceEventId id, std::uint64_t a = 0, std::uint64_t b = 0) {
    ring_->record(clock_->now(), id, a, b);
  }

 private:
  friend class TraceLog;
  TraceWriter(const Clock* clock, TraceLog::Slot* slot, TraceRing* ring)
      : clock_(clock), slot_(slot), ring_(ring) {}
  const Clock* clock_;
  TraceLog::Slot* slot_;
  TraceRing* ring_;
};

// While it lives, a failing YONDER_CHECK dumps the log before it aborts, after
// whatever hook was set before. One per process (checked): the check hook is a
// plain function, so the log it dumps must be a global.
class TraceDumpOnFailure {
 public:
  TraceDumpOnFailure(const TraceLog& log, int fd);
  TraceDumpOnFailure(const TraceDumpOnFailure&) = delete;
  TraceDumpOnFailure& operator=(const TraceDumpOnFailure&) = delete;
  ~TraceDumpOnFailure();
};

}  // namespace yonder::telemetry
