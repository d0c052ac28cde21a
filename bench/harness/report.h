#pragma once
// The report of a benchmark: one JSON object with fixed keys.
//
// Every claim of the project is a ratio of two things measured side by side in
// one run. A ratio is given with the values of its rounds, so the report can say
// how far they spread: (p75 − p25) / median. A ratio with a large spread is to be
// measured again, not believed.
//
// What was simulated says so: "simulated" is true if all figures are; if only some are, they
// are listed under "simulated_keys".
//
// Concurrency: one thread. Lifetime: a value.

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace yonder::bench {

double median(std::span<const double> values);
// The q-quantile, 0 ≤ q ≤ 1, of at least one value (linear between neighbours).
double quantile(std::span<const double> values, double q);

class Report {
 public:
  explicit Report(std::string bench) : bench_(std::move(bench)) {}

  void set_fabric(std::string fabric) { fabric_ = std::move(fabric); }
  // Of the results and ratios that are added from now on.
  void set_simulated(bool simulated) { simulated_ = simulated; }
  void param(const std::string& key, double value) { params_[key] = value; }
  void param(const std::string& key, std::string value) { texts_[key] = std::move(value); }
  void result(const std::string& key, double value) {
    results_[key] = value;
    note_simulated(key);
  }

  // The ratio of each round; the report shows median and spread.
  void ratio(const std::string& key, std::span<const double> rounds);
  // A ratio known by its median only (a child process measured it).
  void ratio(const std::string& key, double value, double spread);

  double ratio_of(const std::string& key) const { return ratios_.at(key); }
  const std::map<std::string, double>& ratios() const { return ratios_; }
  const std::map<std::string, double>& results() const { return results_; }
  const std::map<std::string, double>& spreads() const { return spreads_; }

  std::string to_json() const;
  // A table for people.
  std::string to_text() const;

 private:
  void note_simulated(const std::string& key);
  bool is_all_simulated() const;

  std::string bench_;
  std::string fabric_ = "all";
  bool simulated_ = false;
  std::set<std::string> simulated_keys_;
  std::map<std::string, double> params_;
  std::map<std::string, std::string> texts_;
  std::map<std::string, double> results_;
  std::map<std::string, double> ratios_;
  std::map<std::string, double> spreads_;
};

// Runs `ours` and `baseline` alternately, `rounds` times, and returns the quotient
// ours / baseline of each round. Both return a number of the same unit. Who goes
// first alternates, so that a drift of the machine hits both alike.
template <typename Ours, typename Baseline>
std::vector<double> compare(int rounds, Ours&& ours, Baseline&& baseline) {
  std::vector<double> ratios;
  for (int round = 0; round < rounds; ++round) {
    double a = 0;
    double b = 0;
    if (round % 2 == 0) {
      a = ours();
      b = baseline();
    } else {
      b = baseline();
      a = ours();
    }
    ratios.push_back(a / b);
  }
  return ratios;
}

}  // namespace yonder::bench
