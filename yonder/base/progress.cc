#include "yonder/base/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <utility>

#include "yonder/base/units.h"

namespace yonder {
namespace {

constexpr int kDefaultColumns = 80;
constexpr int kShortestBar = 8;  // Below this a bar shows nothing; the numbers do.

bool wants_terminal(int fd, ProgressStyle style) {
  return style == ProgressStyle::kTerminal || (style == ProgressStyle::kAuto && ::isatty(fd) == 1);
}

// Asked for every line: windows change size.
int columns_of(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kDefaultColumns;
  return size.ws_col;
}

std::string span_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::llround(std::min(seconds, 1e9)));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} m {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} m", whole / 3600, whole % 3600 / 60);
}

double seconds_between(Instant start, Instant end) {
  return std::chrono::duration<double>(end - start).count();
}

}  // namespace

Progress::Progress(const Clock& clock, int fd, ProgressOptions options)
    : clock_(clock),
      fd_(fd),
      options_(std::move(options)),
      terminal_(wants_terminal(fd, options_.style)),
      start_(clock.now()),
      next_draw_ns_(terminal_ ? start_.ns() : (start_ + options_.line_interval).ns()) {
  if (terminal_) draw_if_due(start_);
}

void Progress::draw_if_due(Instant now) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || finished_ || now.ns() < next_draw_ns_.load(std::memory_order_relaxed)) return;
  const Duration interval = terminal_ ? options_.redraw_interval : options_.line_interval;
  next_draw_ns_.store((now + interval).ns(), std::memory_order_relaxed);
  write_all(terminal_ ? bar_line(now) : fmt::format("{}:{}\n", options_.title, status(now)));
}

void Progress::finish() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(finished_, true)) return;
  // Back to the first column, the line, and clear what the bar left behind it.
  const std::string line = summary(clock_.now());
  write_all(terminal_ ? fmt::format("\r{}\x1b[K\n", line) : line + "\n");
}

double Progress::rate(Instant now) const {
  const double seconds = seconds_between(start_, now);
  return seconds > 0 ? static_cast<double>(done()) / seconds : 0;
}

std::string Progress::rate_text(Instant now) const {
  const std::string number = count_string(rate(now));
  // "950/s", "1.2 M/s", "950 keys/s".
  return options_.unit.empty() ? number + "/s" : fmt::format("{} {}/s", number, options_.unit);
}

std::string Progress::status(Instant now) const {
  if (options_.total == 0) {
    return fmt::format("  {}  {}", count_string(static_cast<double>(done())), rate_text(now));
  }
  const std::uint64_t done_steps = std::min(done(), options_.total);
  const double share = static_cast<double>(done_steps) / static_cast<double>(options_.total);
  const double per_second = rate(now);
  const double left = static_cast<double>(options_.total - done_steps);
  const std::string eta = per_second > 0 ? span_text(left / per_second) : "?";
  // Rounded down: 100 % means that nothing is left.
  return fmt::format("  {:3} %  {}  ETA {}", static_cast<int>(share * 100), rate_text(now), eta);
}

std::string Progress::summary(Instant now) const {
  const std::string unit = options_.unit.empty() ? "" : " " + options_.unit;
  const std::string count = count_string(static_cast<double>(done())) + unit;
  const bool stopped = done() < options_.total;
  return fmt::format("{}: {}{} in {} ({})", options_.title, stopped ? "stopped after " : "", count,
                     to_string(now - start_), rate_text(now));
}

std::string Progress::bar_line(Instant now) const {
  const std::string numbers = status(now);
  // The last column stays free: some terminals wrap when it is written.
  const int room = columns_of(fd_) - 1;
  const int width = room - static_cast<int>(options_.title.size() + numbers.size()) - 3;  // " [" and "]".
  std::string line = options_.title;
  if (options_.total != 0 && width >= kShortestBar) {
    const double share =
        static_cast<double>(std::min(done(), options_.total)) / static_cast<double>(options_.total);
    const auto filled = static_cast<std::size_t>(share * width);
    line += fmt::format(" [{}{}]", std::string(filled, '#'),
                        std::string(static_cast<std::size_t>(width) - filled, '.'));
  }
  line += numbers;
  if (line.size() > static_cast<std::size_t>(room)) line.resize(static_cast<std::size_t>(room));
  return "\r" + line + "\x1b[K";
}

void Progress::write_all(std::string_view text) {
  while (!broken_ && !text.empty()) {
    const ssize_t written = ::write(fd_, text.data(), text.size());
    if (written > 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      broken_ = true;
    }
  }
}

}  // namespace yonder
