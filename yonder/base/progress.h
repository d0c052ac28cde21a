#pragma once
// How far long work has got: a bar on a terminal, plain lines everywhere else.
//
//   Progress progress(clock, STDERR_FILENO, {.title = "load", .total = keys, .unit = "keys"});
//   for (…) progress.advance();
//
//   load [#############.................]  43 %  1.21 M keys/s  ETA 12 s
//
// On a terminal one line is redrawn in place and fits its width; in a log file a line
// appears now and then, so that the file stays short. The rate is the average since
// the start, which makes the ETA steady. Output that cannot be written is dropped: the
// work matters, not the bar.
//
// Concurrency: advance() from any thread; it costs an addition and a look at the clock,
// and whoever finds that it is time draws while the others go on. In loops of a few
// nanoseconds advance by batches. Lifetime: clock and descriptor must outlive this; the
// destructor calls finish(). While it lives, nothing else should write to the terminal.

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "yonder/base/time.h"

namespace yonder {

enum class ProgressStyle : std::uint8_t { kAuto, kTerminal, kLines };  // kAuto asks isatty(3).

struct ProgressOptions {
  std::string title;
  std::uint64_t total = 0;  // 0: unknown; then there is neither bar nor ETA.
  std::string unit;         // What is counted, for the rate.
  ProgressStyle style = ProgressStyle::kAuto;
  Duration redraw_interval = std::chrono::milliseconds(100);  // On a terminal.
  Duration line_interval = std::chrono::seconds(5);           // Elsewhere.
};

class Progress {
 public:
  // A terminal shows the empty bar at once; lines begin after the first interval, so
  // short work leaves only its last line.
  Progress(const Clock& clock, int fd, ProgressOptions options);
  ~Progress() { finish(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `steps` more are done. More than the total is shown as 100 %.
  void advance(std::uint64_t steps = 1) {
    done_.fetch_add(steps, std::memory_order_relaxed);  // Relaxed: a count, it orders nothing.
    const Instant now = clock_.now();
    // Relaxed: a stale value draws a little late or tries the lock once in vain.
    if (now.ns() >= next_draw_ns_.load(std::memory_order_relaxed)) [[unlikely]]
      draw_if_due(now);
  }

  std::uint64_t done() const { return done_.load(std::memory_order_relaxed); }

  // Writes the last line, with the whole time, and ends the output. Later calls and
  // later advances write nothing.
  void finish();

 private:
  void draw_if_due(Instant now);
  std::string status(Instant now) const;   // "  43 %  1.21 M keys/s  ETA 12 s"
  std::string summary(Instant now) const;  // "load: 1 M keys in 12 s (83.3 k keys/s)"
  std::string bar_line(Instant now) const;
  double rate(Instant now) const;
  std::string rate_text(Instant now) const;
  void write_all(std::string_view text);

  const Clock& clock_;
  const int fd_;
  const ProgressOptions options_;
  const bool terminal_;
  const Instant start_;
  std::atomic<std::uint64_t> done_{0};
  std::atomic<std::int64_t> next_draw_ns_;

  std::mutex mutex_;  // Protects the output and what follows.
  bool finished_ = false;
  bool broken_ = false;  // A write failed; nothing more is tried.
};

}  // namespace yonder
