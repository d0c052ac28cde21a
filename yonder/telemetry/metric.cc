#include "yonder/telemetry/metric.h"

#include <algorithm>
#include <iterator>

namespace yonder::telemetry {
namespace {

constexpr std::string_view kPrefix = "yonder_";

// Words that say another unit than the base one.
constexpr std::string_view kForbiddenWords[] = {
    "ns",     "us",      "ms",    "nanoseconds", "microseconds", "milliseconds", "sec",    "secs",
    "second", "minutes", "hours", "days",        "byte",         "kb",           "mb",     "gb",
    "kib",    "mib",     "gib",   "kilobytes",   "megabytes",    "gigabytes",    "percent"};

// Endings that Prometheus gives to the series of a histogram.
constexpr std::string_view kReservedEndings[] = {"_bucket", "_sum", "_count"};

bool is_word_character(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; }

std::unexpected<Error> wrong(const char* rule) { return fail(ErrorCode::kInvalidArgument, rule); }

bool has_forbidden_word(std::string_view name) {
  while (!name.empty()) {
    const std::string_view word = name.substr(0, name.find('_'));
    if (std::ranges::find(kForbiddenWords, word) != std::end(kForbiddenWords)) return true;
    name.remove_prefix(std::min(word.size() + 1, name.size()));
  }
  return false;
}

std::string_view unit_suffix(Unit unit) {
  switch (unit) {
    case Unit::kNone:
      return "";
    case Unit::kSeconds:
      return "_seconds";
    case Unit::kBytes:
      return "_bytes";
  }
  return "";
}

Result<void> validate_characters(std::string_view name) {
  if (name.size() > kMaxNameBytes) return wrong("metric name is too long");
  if (!name.starts_with(kPrefix) || name.size() == kPrefix.size())
    return wrong("metric name begins with yonder_");
  if (!std::ranges::all_of(name, is_word_character)) return wrong("metric name is lower case, digits and _");
  if (name.ends_with('_') || name.find("__") != std::string_view::npos)
    return wrong("metric name has an empty word");
  return {};
}

Result<void> validate_suffixes(std::string_view name, MetricType type, Unit unit) {
  const bool total = name.ends_with("_total");
  if (total != (type == MetricType::kCounter))
    return wrong("_total ends the names of counters, and only theirs");
  const std::string_view stem =
      total ? name.substr(0, name.size() - std::string_view("_total").size()) : name;
  if (has_forbidden_word(stem.substr(kPrefix.size())))
    return wrong("metric names use base units: seconds and bytes");
  for (const std::string_view ending : kReservedEndings)
    if (name.ends_with(ending)) return wrong("metric name ends like a series of a histogram");
  const bool says_unit = stem.ends_with("_seconds") || stem.ends_with("_bytes");
  if (says_unit != (unit != Unit::kNone) || !stem.ends_with(unit_suffix(unit)))
    return wrong("metric name ends with its unit");
  return {};
}

Result<void> validate_label(const Label& label) {
  const bool letter_first = !label.name.empty() && label.name[0] >= 'a' && label.name[0] <= 'z';
  if (!letter_first || !std::ranges::all_of(label.name, is_word_character))
    return wrong("label name is a word");
  if (label.name == "le" || label.name == "quantile") return wrong("label name is reserved");
  if (label.name.size() > kMaxNameBytes || label.value.size() > kMaxLabelValueBytes)
    return wrong("label is too long");
  if (label.value.find('\0') != std::string::npos) return wrong("label value contains NUL");
  return {};
}

Result<void> validate_labels(const std::vector<Label>& labels) {
  if (labels.size() > kMaxLabels) return wrong("too many labels");
  for (std::size_t i = 0; i < labels.size(); ++i) {
    YONDER_TRY_VOID(validate_label(labels[i]));
    for (std::size_t k = 0; k < i; ++k)
      if (labels[k].name == labels[i].name) return wrong("label is given twice");
  }
  return {};
}

}  // namespace

Result<void> validate(const MetricOptions& options, MetricType type) {
  YONDER_TRY_VOID(validate_characters(options.name));
  YONDER_TRY_VOID(validate_suffixes(options.name, type, options.unit));
  if (options.help.empty() || options.help.size() > kMaxHelpBytes)
    return wrong("a metric has one sentence of help");
  return validate_labels(options.labels);
}

}  // namespace yonder::telemetry
