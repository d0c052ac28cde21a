#include "yonder/base/log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "yonder/testing/allocation_counter.h"

namespace yonder {
namespace {

using namespace std::chrono_literals;

class FakeClock : public Clock {
 public:
  Instant now() const override { return Instant::from_ns(ns.load()); }
  std::atomic<std::int64_t> ns{0};
};

// A logger into a file of its own, and the lines it wrote.
class LogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = std::filesystem::temp_directory_path() / "yonder-log-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string path() const { return directory_ / "log"; }

  std::unique_ptr<Logger> make(LogFormat format, LogLevel level = LogLevel::kInfo) {
    return Logger::create({.level = level, .format = format, .file = path()}).value();
  }

  std::vector<std::string> lines(Logger& logger) {
    logger.flush();
    std::vector<std::string> found;
    std::ifstream in(path());
    for (std::string line; std::getline(in, line);) found.push_back(line);
    return found;
  }

  std::filesystem::path directory_;
};

TEST_F(LogTest, TextIsForPeople) {
  auto logger = make(LogFormat::kText);
  const std::string peer = "node-7";
  logger->log(LogLevel::kWarn, "fabric", "peer lost",
              {{"peer", peer}, {"outstanding", 3}, {"ratio", 0.5}, {"final", true}});
  const auto written = lines(*logger);
  ASSERT_EQ(written.size(), 1u);
  EXPECT_EQ(written[0].substr(25), "warn  fabric: peer lost peer=node-7 outstanding=3 ratio=0.5 final=true");
  EXPECT_EQ(written[0][10], 'T');
  EXPECT_EQ(written[0][23], 'Z');
}

TEST_F(LogTest, TextFromOutsideCannotForgeALine) {
  auto logger = make(LogFormat::kText);
  logger->log(
      LogLevel::kInfo, "rpc", "bad name",
      {{"name", "x\n2026-01-01 error root: gone"}, {"escape", "\x1b[2J"}, {"empty", ""}, {"spaced", "a b"}});
  const auto written = lines(*logger);
  ASSERT_EQ(written.size(), 1u);
  EXPECT_NE(written[0].find(R"(name="x\n2026-01-01 error root: gone")"), std::string::npos);
  EXPECT_NE(written[0].find(R"(escape="\u001b[2J" empty="" spaced="a b")"), std::string::npos);
}

// DEL and the one-character form of "ESC [" (U+009B) lie above the printable ASCII.
TEST_F(LogTest, ControlsOutsideAsciiReachNoTerminal) {
  for (const LogFormat format : {LogFormat::kText, LogFormat::kJson}) {
    auto logger = make(format);
    logger->log(LogLevel::kInfo, "rpc", "bad name",
                {{"name",
                  "a\x7f\xc2\x9b"
                  "2J"}});
    EXPECT_NE(lines(*logger).back().find(R"("a\u007f\u009b2J")"), std::string::npos);
  }
}

TEST_F(LogTest, JsonLinesParseAndKeepTypes) {
  auto logger = make(LogFormat::kJson);
  logger->log(LogLevel::kError, "node", "write failed",
              {{"error", Error(ErrorCode::kOutOfBounds, "write", 4096)},
               {"code", ErrorCode::kClosed},
               {"count", std::uint64_t{UINT64_MAX}},
               {"delta", -5},
               {"nan", std::nan("")},
               {"text", "quote \" and \xff byte"}});
  const auto written = lines(*logger);
  ASSERT_EQ(written.size(), 1u);
  const auto json = nlohmann::json::parse(written[0]);
  EXPECT_EQ(json["level"], "error");
  EXPECT_EQ(json["component"], "node");
  EXPECT_EQ(json["msg"], "write failed");
  EXPECT_EQ(json["error"]["code"], 101);
  EXPECT_EQ(json["error"]["name"], "OutOfBounds");
  EXPECT_EQ(json["error"]["detail"], 4096);
  EXPECT_EQ(json["code"], "Closed");
  EXPECT_EQ(json["count"], UINT64_MAX);
  EXPECT_EQ(json["delta"], -5);
  EXPECT_TRUE(json["nan"].is_null());
  EXPECT_EQ(json["text"], "quote \" and \xef\xbf\xbd byte");
  EXPECT_EQ(json["ts"].get<std::string>().size(), std::string("2026-03-01T12:00:00.123456Z").size());
}

TEST_F(LogTest, LevelIsChangedAtRunTime) {
  auto logger = make(LogFormat::kText, LogLevel::kWarn);
  logger->log(LogLevel::kInfo, "x", "hidden");
  logger->set_level(LogLevel::kTrace);
  logger->log(LogLevel::kTrace, "x", "seen");
  logger->set_level(LogLevel::kOff);
  logger->log(LogLevel::kError, "x", "hidden");
  const auto written = lines(*logger);
  ASSERT_EQ(written.size(), 1u);
  EXPECT_TRUE(written[0].ends_with("trace x: seen"));
}

TEST_F(LogTest, DisabledMessageAllocatesNothing) {
  auto logger = make(LogFormat::kJson);
  const std::string name(100, 'n');
  const std::uint64_t before = testing::allocations();
  logger->log(LogLevel::kDebug, "x", "hidden",
              {{"name", name}, {"error", Error(ErrorCode::kClosed, "x")}, {"n", 1u}});
  EXPECT_EQ(testing::allocations(), before);
  logger->log(LogLevel::kInfo, "x", "seen", {{"name", name}});
  EXPECT_EQ(testing::allocations() > before, testing::kCountsAllocations);  // The counter does count.
}

TEST_F(LogTest, RateLimitDropsAndThenSaysHowMany) {
  auto logger = make(LogFormat::kText);
  FakeClock clock;
  LogRateLimit limit(clock, 1s);
  for (int i = 0; i < 10; ++i) logger->log(limit, LogLevel::kInfo, "tcp", "bad frame", {{"i", i}});
  clock.ns = 1'000'000'000;
  logger->log(limit, LogLevel::kInfo, "tcp", "bad frame", {{"i", 10}});
  clock.ns = 2'000'000'000;
  logger->log(limit, LogLevel::kInfo, "tcp", "bad frame", {{"i", 11}});
  const auto written = lines(*logger);
  ASSERT_EQ(written.size(), 3u);
  EXPECT_TRUE(written[0].ends_with("i=0"));
  EXPECT_TRUE(written[1].ends_with("i=10 dropped=9"));
  EXPECT_TRUE(written[2].ends_with("i=11"));
}

TEST_F(LogTest, RateLimitCountsEveryMessageOfManyThreads) {
  FakeClock clock;
  LogRateLimit limit(clock, 1ms);
  std::atomic<std::uint64_t> admitted{0};
  std::atomic<std::uint64_t> dropped{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 1000; ++i) {
          clock.ns += 10'000;
          if (const auto count = limit.admit()) {
            ++admitted;
            dropped += *count;
          }
        }
      });
    }
  }
  clock.ns += 10'000'000;
  dropped += limit.admit().value();
  EXPECT_EQ(admitted + dropped, 4000u);
  EXPECT_LE(admitted, 41u);  // 40 ms passed in all.
}

TEST_F(LogTest, ThreadsDoNotMixTheirLines) {
  auto logger = make(LogFormat::kJson);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 100; ++i) logger->log(LogLevel::kInfo, "x", "line", {{"thread", t}, {"i", i}});
      });
    }
  }
  const auto written = lines(*logger);
  EXPECT_EQ(written.size(), 400u);
  for (const std::string& line : written) EXPECT_TRUE(nlohmann::json::accept(line)) << line;
}

TEST_F(LogTest, ProcessLoggerIsReplacedAndRestored) {
  auto logger = make(LogFormat::kText);
  Logger* const before = set_process_logger(logger.get());
  log_info("x", "to the file", {{"n", 1}});
  log_debug("x", "hidden");
  log_warn("x", "second");
  log_error("x", "third");
  EXPECT_EQ(set_process_logger(before), logger.get());
  EXPECT_NE(&process_logger(), logger.get());
  EXPECT_EQ(lines(*logger).size(), 3u);
}

TEST_F(LogTest, DefaultGoesToStderr) {
  ::testing::internal::CaptureStderr();
  log_warn("x", "to the terminal");
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("warn  x: to the terminal\n"), std::string::npos);
}

TEST_F(LogTest, FileThatCannotBeOpenedIsAnError) {
  const auto logger = Logger::create({.file = directory_ / "missing" / "log"});
  ASSERT_FALSE(logger.has_value());
  EXPECT_EQ(logger.error(), ErrorCode::kNotFound);
  EXPECT_EQ(logger.error().detail(), ENOENT);
}

TEST(LogLevel, NamesParseBack) {
  for (const LogLevel level : {LogLevel::kTrace, LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarn,
                               LogLevel::kError, LogLevel::kOff}) {
    EXPECT_EQ(parse_log_level(to_string(level)), level);
  }
  EXPECT_EQ(parse_log_level("Info"), std::nullopt);
}

}  // namespace
}  // namespace yonder
