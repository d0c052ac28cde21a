#pragma once
// Structured logging: a component, a fixed sentence, and key=value fields.
//
//   log_info("fabric", "peer lost", {{"peer", name}, {"outstanding", n}});
//
// is one line, for people
//   2026-03-01T12:00:00.123Z info  fabric: peer lost peer=node-7 outstanding=3
// or for programs
//   {"ts":"2026-03-01T12:00:00.123456Z","level":"info","component":"fabric",
//    "msg":"peer lost","peer":"node-7","outstanding":3}
// Sentences are literals and never contain values: that is what fields are for, so
// that lines can be counted and searched. Text from outside cannot forge a line:
// control characters are escaped in both formats.
//
// Which logger: a Logger is an object, and a component that is tested for what it
// logs takes one through its constructor. The free functions log to the logger of
// the process, because a process has one stderr and passing a logger through every
// layer to reach it buys nothing. Until an app sets another, that is text on stderr
// from kInfo up. Libraries never set it.
//
// A call below the level costs one atomic load and the construction of its fields,
// which allocates nothing. A call that writes allocates and takes the sink's lock:
// log events, not operations, and put a LogRateLimit before what a peer can cause.
//
// Concurrency: any thread. Lifetime: fields borrow their text until the call returns.

#include <atomic>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "yonder/base/error.h"
#include "yonder/base/result.h"
#include "yonder/base/time.h"

namespace yonder {

enum class LogLevel : std::uint8_t { kTrace, kDebug, kInfo, kWarn, kError, kOff };
enum class LogFormat : std::uint8_t { kText, kJson };

// "info"; and back. Unknown names give nullopt.
std::string_view to_string(LogLevel level);
std::optional<LogLevel> parse_log_level(std::string_view name);

// One key=value. Keys are literals in snake_case with the unit last.
class LogField {
 public:
  using Value = std::variant<std::string_view, std::int64_t, std::uint64_t, double, bool, Error>;

  constexpr LogField(const char* key, std::string_view value) : key_(key), value_(value) {}
  constexpr LogField(const char* key, const char* value) : key_(key), value_(std::string_view(value)) {}
  LogField(const char* key, const std::string& value) : key_(key), value_(std::string_view(value)) {}
  constexpr LogField(const char* key, bool value) : key_(key), value_(value) {}
  constexpr LogField(const char* key, std::signed_integral auto value)
      : key_(key), value_(std::int64_t{value}) {}
  constexpr LogField(const char* key, std::unsigned_integral auto value)
      : key_(key), value_(std::uint64_t{value}) {}
  constexpr LogField(const char* key, std::floating_point auto value)
      : key_(key), value_(static_cast<double>(value)) {}
  constexpr LogField(const char* key, const Error& value) : key_(key), value_(value) {}
  LogField(const char* key, ErrorCode value) : key_(key), value_(error_name(value)) {}

  constexpr const char* key() const { return key_; }
  constexpr const Value& value() const { return value_; }

 private:
  const char* key_;
  Value value_;
};

using LogFields = std::initializer_list<LogField>;

struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kText;
  std::string file;  // Appended to; empty means stderr.
};

// Lets one message through per interval and counts the rest. A member of whatever
// could otherwise fill the disk, one per message.
class LogRateLimit {
 public:
  // Requires that the clock outlives this.
  LogRateLimit(const Clock& clock, Duration interval) : clock_(clock), interval_(interval) {}

  // The number of messages dropped since the last one let through, or nullopt: drop
  // this one too.
  std::optional<std::uint64_t> admit();

 private:
  const Clock& clock_;
  const Duration interval_;
  std::atomic<std::int64_t> next_ns_{INT64_MIN};
  std::atomic<std::uint64_t> dropped_{0};
};

class Logger {
 public:
  // Errors: the errno of opening the file.
  static Result<std::unique_ptr<Logger>> create(const LogOptions& options);
  ~Logger();  // Flushes.
  Logger(const Logger&) = delete;
  Logger& operator=(const Logger&) = delete;

  // Relaxed: a changed level may be noticed a few messages late, which harms nothing.
  bool enabled(LogLevel level) const { return level >= level_.load(std::memory_order_relaxed); }
  void set_level(LogLevel level) { level_.store(level, std::memory_order_relaxed); }

  // `component` and `message` are literals. Warnings and errors are flushed at once,
  // the rest of a file when its buffer is full.
  void log(LogLevel level, std::string_view component, std::string_view message, LogFields fields = {}) {
    if (enabled(level)) write(level, component, message, fields, 0);
  }

  // The same, if `limit` admits it; a line that follows dropped ones says how many
  // (field "dropped").
  void log(LogRateLimit& limit, LogLevel level, std::string_view component, std::string_view message,
           LogFields fields = {}) {
    if (!enabled(level)) return;
    if (const auto dropped = limit.admit()) write(level, component, message, fields, *dropped);
  }

  void flush();

 private:
  struct Sink;

  Logger(LogLevel level, std::unique_ptr<Sink> sink);
  void write(LogLevel level, std::string_view component, std::string_view message, LogFields fields,
             std::uint64_t dropped);

  std::atomic<LogLevel> level_;
  const std::unique_ptr<Sink> sink_;
};

// The logger of the process. Setting returns the one before. The new one must live
// until another is set, and be set while no other thread logs: in main(), before
// threads start. nullptr brings the default back.
Logger& process_logger();
Logger* set_process_logger(Logger* logger);

inline void log_debug(std::string_view component, std::string_view message, LogFields fields = {}) {
  process_logger().log(LogLevel::kDebug, component, message, fields);
}
inline void log_info(std::string_view component, std::string_view message, LogFields fields = {}) {
  process_logger().log(LogLevel::kInfo, component, message, fields);
}
inline void log_warn(std::string_view component, std::string_view message, LogFields fields = {}) {
  process_logger().log(LogLevel::kWarn, component, message, fields);
}
inline void log_error(std::string_view component, std::string_view message, LogFields fields = {}) {
  process_logger().log(LogLevel::kError, component, message, fields);
}

}  // namespace yonder
