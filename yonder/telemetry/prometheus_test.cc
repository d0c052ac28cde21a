// The exposition is read back by a strict parser of format 0.0.4 written here.
#include "yonder/telemetry/prometheus.h"

#include <gtest/gtest.h>

#include <cctype>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <optional>
#include <set>

namespace yonder::telemetry {
namespace {

using Labels = std::map<std::string, std::string>;

struct Family {
  std::string help;
  std::string type;
  // Series name (with _bucket and so on) and labels → value, in order of appearance.
  std::vector<std::pair<std::pair<std::string, Labels>, double>> samples;
};

// Throws nothing; a text that is not exactly as the format wants it gives nullopt.
class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) {}

  std::optional<std::map<std::string, Family>> parse() {
    if (!rest_.empty() && rest_.back() != '\n') return std::nullopt;  // The last line ends too.
    while (!rest_.empty()) {
      const std::size_t end = rest_.find('\n');
      line_ = rest_.substr(0, end);
      rest_.remove_prefix(end + 1);
      if (!parse_line()) return std::nullopt;
    }
    return families_;
  }

 private:
  bool parse_line() {
    if (take("# HELP ")) return parse_help();
    if (take("# TYPE ")) return parse_type();
    return parse_sample();
  }

  bool parse_help() {
    const std::string name = take_name();
    if (name.empty() || !take(" ") || families_.contains(name)) return false;  // HELP comes once and first.
    return unescape(std::string(line_), families_[name].help);
  }

  bool parse_type() {
    const std::string name = take_name();
    if (!families_.contains(name) || !take(" ") || !families_[name].type.empty()) return false;
    if (line_ != "counter" && line_ != "gauge" && line_ != "histogram") return false;
    families_[name].type = line_;
    current_ = name;
    return true;
  }

  bool parse_sample() {
    const std::string series = take_name();
    Labels labels;
    if (series.empty() || (take("{") && !parse_labels(labels)) || !take(" ")) return false;
    if (!belongs(series)) return false;  // The samples of a family stand together.
    const std::optional<double> value = parse_number(std::string(line_));
    if (!value) return false;
    for (const auto& [key, old] : families_[current_].samples)
      if (key == std::pair(series, labels)) return false;  // A series appears once.
    families_[current_].samples.push_back({{series, labels}, *value});
    return true;
  }

  bool belongs(const std::string& series) const {
    if (current_.empty()) return false;
    if (families_.at(current_).type != "histogram") return series == current_;
    return series == current_ + "_bucket" || series == current_ + "_sum" || series == current_ + "_count";
  }

  bool parse_labels(Labels& labels) {
    for (bool first = true; !take("}"); first = false) {
      if (!first && !take(",")) return false;
      const std::string name = take_name();
      std::string value;
      if (name.empty() || !take("=\"") || !take_quoted(value)) return false;
      if (!labels.emplace(name, value).second) return false;
    }
    return !labels.empty();
  }

  bool take_quoted(std::string& value) {
    std::string raw;
    while (!line_.empty() && line_[0] != '"') {
      if (line_[0] == '\\') {
        if (line_.size() < 2) return false;
        raw += line_.substr(0, 2);
        line_.remove_prefix(2);
      } else {
        raw += line_[0];
        line_.remove_prefix(1);
      }
    }
    return take("\"") && unescape(raw, value);
  }

  static bool unescape(const std::string& raw, std::string& out) {
    for (std::size_t i = 0; i < raw.size(); ++i) {
      if (raw[i] != '\\') {
        out += raw[i];
        continue;
      }
      if (++i == raw.size()) return false;
      if (raw[i] == 'n')
        out += '\n';
      else if (raw[i] == '\\' || raw[i] == '"')
        out += raw[i];
      else
        return false;
    }
    return true;
  }

  static std::optional<double> parse_number(const std::string& text) {
    if (text.empty() || std::isspace(static_cast<unsigned char>(text[0])) != 0) return std::nullopt;
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    return *end == '\0' ? std::optional(value) : std::nullopt;
  }

  bool take(std::string_view token) {
    if (!line_.starts_with(token)) return false;
    line_.remove_prefix(token.size());
    return true;
  }

  std::string take_name() {
    std::size_t n = 0;
    while (n < line_.size() && (std::isalnum(static_cast<unsigned char>(line_[n])) != 0 || line_[n] == '_'))
      ++n;
    std::string name(line_.substr(0, n));
    if (!name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) != 0) name.clear();
    line_.remove_prefix(n);
    return name;
  }

  std::string_view rest_;
  std::string_view line_;
  std::map<std::string, Family> families_;
  std::string current_;
};

std::map<std::string, Family> parsed(const Registry& registry) {
  const std::string text = to_prometheus(registry.snapshot());
  const auto families = Parser(text).parse();
  EXPECT_TRUE(families.has_value()) << text;
  return families.value_or(std::map<std::string, Family>{});
}

TEST(PrometheusParser, IsStrict) {
  for (const char* text : {"yonder_x 1\n", "# HELP yonder_x h\n# TYPE yonder_x gauge\nyonder_x 1",
                           "# HELP yonder_x h\n# TYPE yonder_x gauge\nyonder_x  1\n",
                           "# HELP yonder_x h\n# TYPE yonder_x gauge\nyonder_x 1\nyonder_x 2\n",
                           "# HELP yonder_x h\n# TYPE yonder_x gauge\nyonder_y 1\n",
                           "# HELP yonder_x h\n# TYPE yonder_x gauge\nyonder_x{a=\"\\x\"} 1\n",
                           "# HELP yonder_x h\n# TYPE yonder_x gauge\nyonder_x{a=\"1\",} 1\n"})
    EXPECT_FALSE(Parser(text).parse().has_value()) << text;
}

TEST(Prometheus, ShowsCountersAndGaugesWithTheirLabels) {
  Registry registry;
  registry.counter({.name = "yonder_reads_total", .help = "Reads.", .labels = {{"provider", "shm"}}})
      .value()
      .add(7);
  registry.gauge({.name = "yonder_free_bytes", .help = "Free.", .unit = Unit::kBytes}).value().set(-3);
  registry.counter({.name = "yonder_reads_total", .help = "Reads.", .labels = {{"provider", "tcp"}}})
      .value()
      .add(8);
  const auto families = parsed(registry);
  ASSERT_EQ(families.size(), 2u);
  const Family& reads = families.at("yonder_reads_total");
  EXPECT_EQ(reads.type, "counter");
  EXPECT_EQ(reads.help, "Reads.");
  ASSERT_EQ(reads.samples.size(), 2u);
  EXPECT_EQ(reads.samples[0].first.second, (Labels{{"provider", "shm"}}));
  EXPECT_EQ(reads.samples[1].second, 8);
  EXPECT_EQ(families.at("yonder_free_bytes").samples[0].second, -3);
}

TEST(Prometheus, SecondsAreSecondsAndBigCountersAreExact) {
  Registry registry;
  registry.counter({.name = "yonder_busy_seconds_total", .help = "Busy.", .unit = Unit::kSeconds})
      .value()
      .add(1'500'000'000);
  registry.counter({.name = "yonder_big_total", .help = "Big."}).value().add((std::uint64_t{1} << 63) + 1);
  EXPECT_EQ(parsed(registry).at("yonder_busy_seconds_total").samples[0].second, 1.5);
  EXPECT_NE(to_prometheus(registry.snapshot()).find("yonder_big_total 9223372036854775809\n"),
            std::string::npos);
}

TEST(Prometheus, EscapesHelpAndLabelValues) {
  Registry registry;
  const std::string nasty = "a\\b\n\"c\"";
  registry.gauge({.name = "yonder_x", .help = nasty, .labels = {{"path", nasty}}}).value().set(1);
  const Family family = parsed(registry).at("yonder_x");
  EXPECT_EQ(family.help, nasty);
  EXPECT_EQ(family.samples[0].first.second.at("path"), nasty);
}

TEST(Prometheus, HistogramsAreCumulativeAndEndWithInfinity) {
  Registry registry;
  const auto latency =
      registry.histogram({.name = "yonder_latency_seconds", .help = "Latency.", .unit = Unit::kSeconds})
          .value();
  for (const std::uint64_t ns : {1024u, 1025u, 5000u}) latency.record(ns);
  latency.record(std::uint64_t{1} << 45);
  const Family family = parsed(registry).at("yonder_latency_seconds");
  EXPECT_EQ(family.type, "histogram");
  double last_bound = -1;
  double last_count = 0;
  std::map<double, double> buckets;
  for (const auto& [key, value] : family.samples) {
    if (key.first != "yonder_latency_seconds_bucket") continue;
    const std::string le = key.second.at("le");
    const double bound = le == "+Inf" ? std::numeric_limits<double>::infinity() : std::stod(le);
    EXPECT_GT(bound, last_bound);
    EXPECT_GE(value, last_count);
    last_bound = bound;
    last_count = value;
    buckets[bound] = value;
  }
  EXPECT_TRUE(std::isinf(last_bound));
  EXPECT_EQ(buckets.at(1024e-9), 1) << "le is inclusive";
  EXPECT_EQ(buckets.at(2048e-9), 2);
  EXPECT_EQ(buckets.at(8192e-9), 3);
  EXPECT_EQ(last_count, 4);
  EXPECT_EQ(family.samples.back().first.first, "yonder_latency_seconds_count");
  EXPECT_EQ(family.samples.back().second, 4);
}

TEST(Prometheus, AnEmptyRegistryIsAnEmptyText) { EXPECT_EQ(to_prometheus({}), ""); }

}  // namespace
}  // namespace yonder::telemetry
