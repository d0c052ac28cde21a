#include "bench/harness/report.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "yonder/base/check.h"

namespace yonder::bench {
namespace {

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(std::min(line.find(':') + 2, line.size()));
  }
  return "unknown";
}

nlohmann::ordered_json machine() {
  utsname name{};
  uname(&name);
  return {{"cpu", processor_name()},
          {"cores", sysconf(_SC_NPROCESSORS_ONLN)},
          {"memory_bytes", std::uint64_t(sysconf(_SC_PHYS_PAGES)) * std::uint64_t(sysconf(_SC_PAGESIZE))},
          {"kernel", name.release}};
}

// Six digits are more than any measurement here has; 0.30000000000000004 helps nobody.
double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double scale = std::pow(10.0, 5 - std::floor(std::log10(std::fabs(value))));
  return std::round(value * scale) / scale;
}

nlohmann::ordered_json object_of(const std::map<std::string, double>& values) {
  auto object = nlohmann::ordered_json::object();
  for (const auto& [key, value] : values) object[key] = rounded(value);
  return object;
}

}  // namespace

double quantile(std::span<const double> values, double q) {
  YONDER_CHECK(!values.empty(), "a quantile needs at least one value");
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  const double position = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], position - static_cast<double>(below));
}

double median(std::span<const double> values) { return quantile(values, 0.5); }

void Report::ratio(const std::string& key, std::span<const double> rounds) {
  const double middle = median(rounds);
  ratio(key, middle, (quantile(rounds, 0.75) - quantile(rounds, 0.25)) / middle);
}

void Report::ratio(const std::string& key, double value, double spread) {
  ratios_[key] = value;
  spreads_[key] = spread;
  note_simulated(key);
}

void Report::note_simulated(const std::string& key) {
  if (simulated_) {
    simulated_keys_.insert(key);
  } else {
    simulated_keys_.erase(key);
  }
}

bool Report::is_all_simulated() const {
  const auto is_simulated = [&](const auto& entry) { return simulated_keys_.contains(entry.first); };
  return !simulated_keys_.empty() && std::ranges::all_of(results_, is_simulated) &&
         std::ranges::all_of(ratios_, is_simulated);
}

std::string Report::to_json() const {
  nlohmann::ordered_json params = object_of(params_);
  for (const auto& [key, value] : texts_) params[key] = value;
  nlohmann::ordered_json report = {{"bench", bench_},
                                   {"version", YONDER_VERSION},
                                   {"machine", machine()},
                                   {"fabric", fabric_},
                                   {"simulated", is_all_simulated()},
                                   {"params", params},
                                   {"results", object_of(results_)},
                                   {"ratios", object_of(ratios_)},
                                   {"spread", object_of(spreads_)}};
  if (!is_all_simulated() && !simulated_keys_.empty()) report["simulated_keys"] = simulated_keys_;
  return report.dump(2);
}

std::string Report::to_text() const {
  std::string out =
      fmt::format("benchmark {} ({}{})\n", bench_, fabric_, is_all_simulated() ? ", simulated" : "");
  const auto mark = [&](const std::string& key) {
    return !is_all_simulated() && simulated_keys_.contains(key) ? "   simulated" : "";
  };
  for (const auto& [key, value] : ratios_) {
    out += fmt::format("  {:<44} {:>10.3f}   spread {:.3f}{}\n", key, value, spreads_.at(key), mark(key));
  }
  for (const auto& [key, value] : results_) {
    out += fmt::format("  {:<44} {:>14.6g}{}\n", key, value, mark(key));
  }
  return out;
}

}  // namespace yonder::bench
