#include "yonder/base/log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

namespace yonder {
namespace {

constexpr std::array<std::string_view, 6> kLevelNames = {"trace", "debug", "info", "warn", "error", "off"};

template <typename... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};

// A JSON string. Bytes that are no UTF-8 become U+FFFD: a log line is always valid JSON.
// All beyond ASCII is escaped, because among it are controls that terminals obey.
std::string json_string(std::string_view text) {
  constexpr bool kAsciiOnly = true;
  return nlohmann::json(text).dump(-1, ' ', kAsciiOnly, nlohmann::json::error_handler_t::replace);
}

bool needs_quotes(std::string_view text) {
  if (text.empty()) return true;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= ' ' || c == '"' || c == '=' || c == '\\' || byte >= 0x7f) return true;
  }
  return false;
}

void append_text(fmt::memory_buffer& out, const LogField::Value& value) {
  const auto end = std::back_inserter(out);
  std::visit(Overloaded{
                 [&](std::string_view text) {
                   // JSON's escapes serve people too, and keep one event on one line.
                   fmt::format_to(end, "{}", needs_quotes(text) ? json_string(text) : std::string(text));
                 },
                 [&](const Error& error) { fmt::format_to(end, "{}", json_string(error.to_string())); },
                 [&](auto number) { fmt::format_to(end, "{}", number); },
             },
             value);
}

void append_json(fmt::memory_buffer& out, const LogField::Value& value) {
  const auto end = std::back_inserter(out);
  std::visit(Overloaded{
                 [&](std::string_view text) { fmt::format_to(end, "{}", json_string(text)); },
                 [&](const Error& error) {
                   fmt::format_to(end, R"({{"code":{},"name":"{}","message":{},"detail":{}}})",
                                  static_cast<unsigned>(error.code()), error_name(error.code()),
                                  json_string(error.message()), error.detail());
                 },
                 // JSON has no infinities.
                 [&](double number) {
                   fmt::format_to(end, "{}", std::isfinite(number) ? fmt::format("{}", number) : "null");
                 },
                 [&](auto number) { fmt::format_to(end, "{}", number); },
             },
             value);
}

struct Line {
  LogLevel level;
  std::string_view component;
  std::string_view message;
  LogFields fields;
  std::uint64_t dropped;
};

void text_line(fmt::memory_buffer& out, const Line& line) {
  const auto end = std::back_inserter(out);
  fmt::format_to(end, "{:<5} {}: {}", to_string(line.level), line.component, line.message);
  for (const LogField& field : line.fields) {
    fmt::format_to(end, " {}=", field.key());
    append_text(out, field.value());
  }
  if (line.dropped > 0) fmt::format_to(end, " dropped={}", line.dropped);
}

// The rest of the object that the pattern of the sink opens.
void json_line(fmt::memory_buffer& out, const Line& line) {
  const auto end = std::back_inserter(out);
  fmt::format_to(end, R"("level":"{}","component":{},"msg":{})", to_string(line.level),
                 json_string(line.component), json_string(line.message));
  for (const LogField& field : line.fields) {
    fmt::format_to(end, ",{}:", json_string(field.key()));
    append_json(out, field.value());
  }
  if (line.dropped > 0) fmt::format_to(end, R"(,"dropped":{})", line.dropped);
  out.push_back('}');
}

// Only decides what is flushed at once; the names in the lines are ours.
spdlog::level::level_enum to_spdlog(LogLevel level) {
  return level >= LogLevel::kWarn ? spdlog::level::warn : spdlog::level::info;
}

std::atomic<Logger*> g_process_logger{nullptr};

// Never destroyed, so that destructors of other statics may still log.
Logger& default_logger() {
  static Logger* const logger = Logger::create({}).value().release();
  return *logger;
}

// spdlog reports a file it cannot open by an exception without errno.
Result<void> probe_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return fail_errno("open log file");
  ::close(fd);
  return {};
}

}  // namespace

// spdlog brings the locked sinks, the buffering and the time stamps.
struct Logger::Sink {
  Sink(std::shared_ptr<spdlog::sinks::sink> sink, LogFormat line_format)
      : logger("yonder", std::move(sink)), format(line_format) {
    const bool json = format == LogFormat::kJson;
    logger.set_formatter(std::make_unique<spdlog::pattern_formatter>(
        json ? R"({"ts":"%Y-%m-%dT%H:%M:%S.%fZ",%v)" : "%Y-%m-%dT%H:%M:%S.%eZ %v",
        spdlog::pattern_time_type::utc));
    logger.set_level(spdlog::level::trace);  // Our own level was checked before.
    logger.flush_on(spdlog::level::warn);
  }

  spdlog::logger logger;
  const LogFormat format;
};

std::string_view to_string(LogLevel level) { return kLevelNames[static_cast<std::size_t>(level)]; }

std::optional<LogLevel> parse_log_level(std::string_view name) {
  const auto found = std::ranges::find(kLevelNames, name);
  if (found == kLevelNames.end()) return std::nullopt;
  return static_cast<LogLevel>(found - kLevelNames.begin());
}

std::optional<std::uint64_t> LogRateLimit::admit() {
  const Instant now = clock_.now();
  std::int64_t next_ns = next_ns_.load();
  // Of several threads at the end of an interval, the exchange lets one through.
  if (now.ns() < next_ns || !next_ns_.compare_exchange_strong(next_ns, (now + interval_).ns())) {
    dropped_.fetch_add(1);
    return std::nullopt;
  }
  return dropped_.exchange(0);
}

Result<std::unique_ptr<Logger>> Logger::create(const LogOptions& options) {
  std::shared_ptr<spdlog::sinks::sink> sink;
  if (options.file.empty()) {
    sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  } else {
    YONDER_TRY_VOID(probe_file(options.file));
    try {
      sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(options.file);
    } catch (const spdlog::spdlog_ex&) {
      return fail(ErrorCode::kOsError, "open log file");
    }
  }
  return std::unique_ptr<Logger>(
      new Logger(options.level, std::make_unique<Sink>(std::move(sink), options.format)));
}

Logger::Logger(LogLevel level, std::unique_ptr<Sink> sink) : level_(level), sink_(std::move(sink)) {}
Logger::~Logger() { flush(); }

void Logger::flush() { sink_->logger.flush(); }

void Logger::write(LogLevel level, std::string_view component, std::string_view message, LogFields fields,
                   std::uint64_t dropped) {
  const Line line{
      .level = level, .component = component, .message = message, .fields = fields, .dropped = dropped};
  fmt::memory_buffer buffer;
  if (sink_->format == LogFormat::kJson) {
    json_line(buffer, line);
  } else {
    text_line(buffer, line);
  }
  sink_->logger.log(to_spdlog(level), spdlog::string_view_t(buffer.data(), buffer.size()));
}

Logger& process_logger() {
  // acquire: pairs with the exchange in set_process_logger(); the logger is complete.
  Logger* const logger = g_process_logger.load(std::memory_order_acquire);
  return logger != nullptr ? *logger : default_logger();
}

Logger* set_process_logger(Logger* logger) { return g_process_logger.exchange(logger); }

}  // namespace yonder
