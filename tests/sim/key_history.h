#pragma once
// Histories of the keys of a map, and the search for an order that explains them.
//
// Each call is recorded with its begin, its end and its answer. A history is linearizable
// iff for every key there is an order of its calls in which each gives the answer it gave,
// and no call comes before one that had ended before it began. Answers that never came
// (kUnknown) may be explained by an effect at any later time, or by none.
//
// Versions, where an answer has one, grow with every change; so the order of the changes
// that were answered is known, and only those that were not make the search branch. A call
// that changes nothing is taken as soon as it fits: that never takes a possibility from
// the others.
//
// Concurrency: pure functions. Lifetime: values.

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace yonder {

enum class KeyCall : std::uint8_t { kPut, kInsert, kUpdate, kErase, kFind };
enum class KeyAnswer : std::uint8_t { kDone, kNotFound, kAlreadyExists, kUnknown };

struct KeyEvent {
  std::uint64_t key = 0;
  KeyCall call = KeyCall::kFind;
  KeyAnswer answer = KeyAnswer::kDone;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::uint64_t version = 0;  // with kDone
  std::uint64_t value = 0;    // found or written; no two calls write the same
};

class KeySearch {
 public:
  explicit KeySearch(std::vector<KeyEvent> events) : events_(std::move(events)), taken_(events_.size()) {
    for (KeyEvent& event : events_) {
      if (event.answer == KeyAnswer::kUnknown) event.end_ns = INT64_MAX;
    }
    std::ranges::sort(events_, {}, &KeyEvent::begin_ns);
  }

  bool is_explained() { return explain(State{}); }

 private:
  struct State {
    bool present = false;
    std::uint64_t value = 0;
    std::uint64_t version = 0;     // at least
    bool is_version_exact = true;  // Of a change whose answer is unknown it is not.
    std::size_t changed_by = SIZE_MAX;
  };

  static bool changes(const KeyEvent& event) {
    if (event.call == KeyCall::kFind) return false;
    return event.answer == KeyAnswer::kDone || event.answer == KeyAnswer::kUnknown;
  }
  static bool is_certain(const KeyEvent& event) { return event.answer != KeyAnswer::kUnknown; }

  // A call that changed nothing: whether it would have answered so.
  static bool agrees(const KeyEvent& event, const State& state) {
    if (event.answer == KeyAnswer::kNotFound) return !state.present;
    if (event.answer == KeyAnswer::kAlreadyExists) return state.present;
    if (event.answer == KeyAnswer::kUnknown) return false;  // A find that failed says nothing.
    const bool fits = state.is_version_exact ? event.version == state.version : event.version > state.version;
    return state.present && fits && event.value == state.value;
  }

  // What a change leaves behind, if it could take effect.
  static std::optional<State> after(const KeyEvent& event, const State& state, std::size_t index) {
    if (event.call == KeyCall::kInsert && state.present) return std::nullopt;
    if ((event.call == KeyCall::kUpdate || event.call == KeyCall::kErase) && !state.present)
      return std::nullopt;
    if (is_certain(event) && event.version <= state.version) return std::nullopt;
    return State{.present = event.call != KeyCall::kErase,
                 .value = event.value,
                 .version = is_certain(event) ? event.version : state.version,
                 .is_version_exact = is_certain(event),
                 .changed_by = index};
  }

  bool explain(State state) {
    const std::vector<bool> taken_before = taken_;
    take_all_that_agree(state);
    if (first_end() == INT64_MAX) return true;  // Only those are left that may never have been.
    if (seen_.insert({taken_, state.changed_by}).second) {
      const std::int64_t until = first_end();
      const std::uint64_t next_version = least_version();
      for (const bool certain : {true, false}) {
        for (std::size_t i = 0; i < events_.size() && events_[i].begin_ns <= until; ++i) {
          const KeyEvent& event = events_[i];
          if (taken_[i] || !changes(event) || is_certain(event) != certain) continue;
          if (certain && event.version != next_version) continue;
          const auto next = after(event, state, i);
          if (!next) continue;
          taken_[i] = true;
          if (explain(*next)) return true;
          taken_[i] = false;
        }
      }
    }
    taken_ = taken_before;
    return false;
  }

  void take_all_that_agree(State& state) {
    for (std::size_t i = 0; i < events_.size() && events_[i].begin_ns <= first_end(); ++i) {
      const KeyEvent& event = events_[i];
      if (taken_[i] || changes(event) || !agrees(event, state)) continue;
      taken_[i] = true;
      if (event.answer == KeyAnswer::kDone) {
        state.version = event.version;
        state.is_version_exact = true;
      }
      i = SIZE_MAX;  // From the beginning: what waited for its end may fit now.
    }
  }

  // Whatever comes next began before this.
  std::int64_t first_end() const {
    std::int64_t end = INT64_MAX;
    for (std::size_t i = 0; i < events_.size(); ++i) {
      if (!taken_[i]) end = std::min(end, events_[i].end_ns);
    }
    return end;
  }
  std::uint64_t least_version() const {
    std::uint64_t version = UINT64_MAX;
    for (std::size_t i = 0; i < events_.size(); ++i) {
      if (!taken_[i] && changes(events_[i]) && is_certain(events_[i])) {
        version = std::min(version, events_[i].version);
      }
    }
    return version;
  }

  std::vector<KeyEvent> events_;  // By their begin.
  std::vector<bool> taken_;
  std::set<std::pair<std::vector<bool>, std::size_t>> seen_;  // Dead ends, or under way.
};

inline std::string describe(const KeyEvent& event) {
  constexpr const char* kCalls[] = {"put", "insert", "update", "erase", "find"};
  constexpr const char* kAnswers[] = {"done", "not found", "already exists", "unknown"};
  return "  [" + std::to_string(event.begin_ns) + ", " + std::to_string(event.end_ns) + "] " +
         kCalls[static_cast<int>(event.call)] + " " + std::to_string(event.value) + ": " +
         kAnswers[static_cast<int>(event.answer)] + ", version " + std::to_string(event.version) + "\n";
}

// The calls of a key that no order explains, or nothing. Keys are absent in the beginning.
inline std::optional<std::string> find_unexplained(const std::vector<KeyEvent>& history) {
  std::map<std::uint64_t, std::vector<KeyEvent>> keys;
  for (const KeyEvent& event : history) keys[event.key].push_back(event);
  for (auto& [key, events] : keys) {
    if (KeySearch(events).is_explained()) continue;
    std::ranges::sort(events, {}, &KeyEvent::begin_ns);
    std::string out = "no order explains the calls of key " + std::to_string(key) + "\n";
    for (const KeyEvent& event : events) out += describe(event);
    return out;
  }
  return std::nullopt;
}

}  // namespace yonder
