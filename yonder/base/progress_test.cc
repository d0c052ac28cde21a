#include "yonder/base/progress.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>
#include <thread>
#include <vector>

namespace yonder {
namespace {

using namespace std::chrono_literals;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class FakeClock : public Clock {
 public:
  Instant now() const override { return Instant::from_ns(ns.load()); }
  void advance(Duration d) { ns += d.count(); }
  std::atomic<std::int64_t> ns{1'000'000'000};
};

// Everything that can be read without waiting.
std::string drain(int fd) {
  std::string text;
  char buffer[4096];
  ssize_t got = 0;
  while ((got = ::read(fd, buffer, sizeof buffer)) > 0) text.append(buffer, static_cast<std::size_t>(got));
  return text;
}

class Pipe {
 public:
  Pipe() { EXPECT_EQ(::pipe2(fds_, O_CLOEXEC | O_NONBLOCK), 0); }
  ~Pipe() {
    close_reader();
    ::close(fds_[1]);
  }
  int writer() const { return fds_[1]; }
  std::string text() const { return drain(fds_[0]); }
  void close_reader() {
    if (fds_[0] >= 0) ::close(fds_[0]);
    fds_[0] = -1;
  }

 private:
  int fds_[2] = {-1, -1};
};

class Terminal {
 public:
  explicit Terminal(unsigned short columns) {
    winsize size{};
    size.ws_row = 25;
    size.ws_col = columns;
    EXPECT_EQ(::openpty(&master_, &slave_, nullptr, nullptr, &size), 0);
    EXPECT_EQ(::fcntl(master_, F_SETFL, O_NONBLOCK), 0);
  }
  ~Terminal() {
    ::close(slave_);
    ::close(master_);
  }
  int fd() const { return slave_; }
  std::string text() const { return drain(master_); }
  void resize(unsigned short columns) {
    winsize size{};
    size.ws_row = 25;
    size.ws_col = columns;
    EXPECT_EQ(::ioctl(master_, TIOCSWINSZ, &size), 0);
  }

 private:
  int master_ = -1;
  int slave_ = -1;
};

// What is left on the line after a redraw "\r…\x1b[K".
std::string shown(const std::string& redraw) {
  EXPECT_THAT(redraw, StartsWith("\r"));
  EXPECT_THAT(redraw, EndsWith("\x1b[K"));
  return redraw.substr(1, redraw.size() - 4);
}

TEST(Progress, WritesALineAnIntervalWhereThereIsNoTerminal) {
  FakeClock clock;
  Pipe pipe;
  Progress progress(clock, pipe.writer(),
                    {.title = "load", .total = 1000, .unit = "keys", .line_interval = 5s});
  progress.advance(100);
  EXPECT_EQ(pipe.text(), "");
  clock.advance(5s);
  progress.advance(150);
  EXPECT_EQ(pipe.text(), "load:   25 %  50 keys/s  ETA 15 s\n");
  clock.advance(4s);
  progress.advance(1);
  EXPECT_EQ(pipe.text(), "");
  clock.advance(1s);
  progress.advance(749);
  EXPECT_EQ(pipe.text(), "load:  100 %  100 keys/s  ETA 0 s\n");
  progress.finish();
  EXPECT_EQ(pipe.text(), "load: 1 k keys in 10 s (100 keys/s)\n");
}

TEST(Progress, SaysThatItStoppedEarlyAndSaysItOnce) {
  FakeClock clock;
  Pipe pipe;
  {
    Progress progress(clock, pipe.writer(), {.title = "load", .total = 10});
    progress.advance(4);
    clock.advance(2s);
    progress.finish();
    clock.advance(1h);
    progress.advance(4);
  }
  EXPECT_EQ(pipe.text(), "load: stopped after 4 in 2 s (2/s)\n");
}

TEST(Progress, UnknownTotalHasNeitherPercentNorEta) {
  FakeClock clock;
  Pipe pipe;
  Progress progress(clock, pipe.writer(), {.title = "scan", .line_interval = 1s});
  clock.advance(2s);
  progress.advance(3000);
  EXPECT_EQ(pipe.text(), "scan:  3 k  1.5 k/s\n");
}

TEST(Progress, MoreThanTheTotalIsAllOfIt) {
  FakeClock clock;
  Pipe pipe;
  Progress progress(clock, pipe.writer(), {.title = "x", .total = 10, .line_interval = 1s});
  clock.advance(1s);
  progress.advance(25);
  EXPECT_THAT(pipe.text(), HasSubstr("100 %  25/s  ETA 0 s"));
}

TEST(Progress, LongWaitsAreWrittenInMinutesAndHours) {
  FakeClock clock;
  Pipe pipe;
  Progress progress(clock, pipe.writer(), {.title = "x", .total = 10'000, .line_interval = 1s});
  clock.advance(1s);
  progress.advance(1);
  EXPECT_THAT(pipe.text(), EndsWith("ETA 2 h 46 m\n"));
  clock.advance(1s);
  progress.advance(99);
  EXPECT_THAT(pipe.text(), EndsWith("ETA 3 m 18 s\n"));
}

TEST(Progress, RedrawsOneLineOnATerminal) {
  FakeClock clock;
  Terminal terminal(60);
  Progress progress(clock, terminal.fd(), {.title = "load", .total = 200, .redraw_interval = 100ms});
  EXPECT_EQ(shown(terminal.text()), "load [.................................]    0 %  0/s  ETA ?");
  clock.advance(99ms);
  progress.advance(1);
  EXPECT_EQ(terminal.text(), "");
  clock.advance(901ms);
  progress.advance(99);
  const std::string half = shown(terminal.text());
  EXPECT_EQ(half, "load [##############...............]   50 %  100/s  ETA 1 s");
  EXPECT_LT(half.size(), 60u);
  progress.advance(100);
  progress.finish();
  EXPECT_THAT(terminal.text(), StartsWith("\rload: 200 in 1 s (200/s)\x1b[K"));
}

TEST(Progress, FollowsTheWidthOfTheTerminal) {
  FakeClock clock;
  Terminal terminal(200);
  Progress progress(clock, terminal.fd(), {.title = "load", .total = 200});
  EXPECT_EQ(shown(terminal.text()).size(), 199u);
  for (const unsigned short columns : {120, 41, 40, 20, 5}) {
    terminal.resize(columns);
    clock.advance(1s);
    progress.advance(1);
    EXPECT_LT(shown(terminal.text()).size(), columns);
  }
}

TEST(Progress, StyleOverridesWhatTheDescriptorIs) {
  FakeClock clock;
  Pipe pipe;
  Progress progress(clock, pipe.writer(), {.title = "x", .total = 2, .style = ProgressStyle::kTerminal});
  EXPECT_EQ(shown(pipe.text()).size(), 79u);  // A pipe has no width: 80 columns.
  Terminal terminal(80);
  Progress lines(clock, terminal.fd(), {.title = "x", .total = 2, .style = ProgressStyle::kLines});
  lines.advance(2);
  EXPECT_EQ(terminal.text(), "");
}

TEST(Progress, GoesOnWhenNobodyReads) {
  const auto old_handler = std::signal(SIGPIPE, SIG_IGN);
  FakeClock clock;
  Pipe pipe;
  pipe.close_reader();
  {
    Progress progress(clock, pipe.writer(), {.title = "x", .total = 2, .line_interval = 1s});
    clock.advance(2s);
    progress.advance(1);
    clock.advance(2s);
    progress.advance(1);
    EXPECT_EQ(progress.done(), 2u);
  }
  std::signal(SIGPIPE, old_handler);
}

TEST(Progress, CountsTheStepsOfAllThreads) {
  FakeClock clock;
  Pipe pipe;
  {
    Progress progress(clock, pipe.writer(), {.title = "x", .total = 4000, .line_interval = 10ms});
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 1000; ++i) {
          clock.advance(10us);
          progress.advance();
        }
      });
    }
    threads.clear();
    EXPECT_EQ(progress.done(), 4000u);
  }
  const std::string text = pipe.text();
  EXPECT_THAT(text, EndsWith("x: 4 k in 40 ms (100 k/s)\n"));
  // 40 ms of the clock: at most four lines before the last.
  EXPECT_LE(std::ranges::count(text, '\n'), 5);
}

}  // namespace
}  // namespace yonder
