#include "yonder/telemetry/trace_log.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <limits>
#include <optional>
#include <string>
#include <thread>

#include "yonder/base/check.h"
#include "yonder/os/fd.h"
#include "yonder/os/memfd.h"
#include "yonder/os/signal.h"
#include "yonder/telemetry/internal/line_writer.h"

namespace yonder::telemetry {
namespace {

class ManualClock final : public Clock {
 public:
  Instant now() const override { return now_; }
  void advance(Duration duration) { now_ = now_ + duration; }

 private:
  Instant now_ = Instant::from_ns(1'000'000'000);
};

constexpr const char* kNames[] = {"post", "poll"};

// A file to dump into, and what it then contains.
class Capture {
 public:
  int fd() const { return memfd_.fd().get(); }
  std::string text() const {
    std::string all(static_cast<std::size_t>(::lseek(fd(), 0, SEEK_CUR)), '\0');
    EXPECT_EQ(::pread(fd(), all.data(), all.size(), 0), static_cast<ssize_t>(all.size()));
    return all;
  }

 private:
  os::Memfd memfd_ = os::Memfd::create({.size = 1 << 16}).value();
};

TEST(TraceLog, DumpsWhatThreadsDidLast) {
  ManualClock clock;
  TraceLog log(clock, {.names = kNames});
  auto trace = log.register_thread("poller").value();
  trace.record(0, 7, 64);
  clock.advance(std::chrono::nanoseconds(1'000'000'250));
  trace.record(1);
  trace.record(9);
  const Capture out;
  log.dump(out.fd());
  EXPECT_EQ(out.text(),
            "poller #0 -1.000000250 post a=7 b=64\n"
            "poller #1 +0.000000000 poll a=0 b=0\n"
            "poller #2 +0.000000000 event 9 a=0 b=0\n");
}

TEST(TraceLog, CollectsAllThreadsByTime) {
  ManualClock clock;
  TraceLog log(clock, {});
  auto first = log.register_thread("a thread with a long name").value();
  auto second = log.register_thread("b").value();
  second.record(1);
  clock.advance(std::chrono::seconds(1));
  first.record(2);
  const auto events = log.collect();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].event.id, 1);
  EXPECT_STREQ(events[0].thread.data(), "b");
  EXPECT_STREQ(events[1].thread.data(), "a thread with a");
}

TEST(TraceLog, RingsAreBoundedAndOutliveTheirThreads) {
  ManualClock clock;
  TraceLog log(clock, {.max_threads = 1});
  std::thread([&] { log.register_thread("gone").value().record(3); }).join();
  EXPECT_EQ(log.collect().size(), 1u);
  auto trace = log.register_thread("next").value();
  EXPECT_EQ(log.register_thread("more").error(), ErrorCode::kResourceExhausted);
}

TEST(TraceLog, MustOutliveItsWriters) {
  ManualClock clock;
  EXPECT_DEATH(
      {
        std::optional<TraceLog> log(std::in_place, clock, TraceLogOptions{});
        const auto trace = log->register_thread("x").value();
        log.reset();
      },
      "before their log");
}

TEST(TraceLog, AFailingCheckDumpsIt) {
  ManualClock clock;
  TraceLog log(clock, {.names = kNames});
  auto trace = log.register_thread("worker").value();
  trace.record(1, 42);
  EXPECT_DEATH(
      {
        const TraceDumpOnFailure on_failure(log, STDERR_FILENO);
        YONDER_CHECK(1 == 2, "an expected failure");
      },
      "an expected failure.*\n.*worker #0 .0.000000000 poll a=42");
  {
    const TraceDumpOnFailure on_failure(log, STDERR_FILENO);
  }
  EXPECT_DEATH(YONDER_CHECK(1 == 2, "another one"), "another one.*\n?$") << "the hook is taken back";
}

const TraceLog* g_signal_log = nullptr;
int g_signal_fd = -1;
bool dump_in_handler(int, siginfo_t*, void*) noexcept {
  g_signal_log->dump(g_signal_fd);
  return true;
}

TEST(TraceLog, CanBeDumpedFromASignalHandler) {
  ManualClock clock;
  TraceLog log(clock, {.names = kNames});
  auto trace = log.register_thread("worker").value();
  trace.record(0, 1, 2);
  const Capture out;
  g_signal_log = &log;
  g_signal_fd = out.fd();
  const os::SignalHook hook = os::SignalHook::install(SIGUSR2, dump_in_handler).value();
  ::raise(SIGUSR2);
  EXPECT_EQ(out.text(), "worker #0 +0.000000000 post a=1 b=2\n");
}

TEST(LineWriter, FormatsExtremesAndCutsWhatDoesNotFit) {
  const Capture out;
  internal::LineWriter line;
  line.number(~std::uint64_t{0})
      .text(" ")
      .number(0)
      .text(" ")
      .seconds(std::numeric_limits<std::int64_t>::min());
  line.flush(out.fd());
  EXPECT_EQ(out.text(), "18446744073709551615 0 -9223372036.854775808\n");
  line.text(std::string(1000, 'x')).flush(out.fd());
  EXPECT_EQ(out.text().size(), 45u + 256u);
  line.text("a dump that cannot be written").flush(-1);
}

}  // namespace
}  // namespace yonder::telemetry
