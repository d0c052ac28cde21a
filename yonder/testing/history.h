#pragma once
// Histories of one object that many threads read and write, and the proof that
// they are linearizable.
//
// Each thread records what it called, when the call began and ended, and what came
// back. The object is a register whose every write makes a new version, and every
// answer carries the version it saw; versions of one object must not wrap. That
// makes the question easy: the only order that can be right is by version, the
// write of a version before the reads of it. So a history is linearizable iff
//   V1  no two writes made the same version, and a write left a greater version
//       than every operation that had ended before it began;
//   V2  a read saw no smaller version than an operation that had ended before it
//       began, and none whose write began after the read had ended;
//   V3  a read of a version returned what its write wrote (a fingerprint of it);
//   V4  an operation that ended before the object's end began succeeded, and one
//       that began after the end had ended failed.
// (Sufficient: order by version, a write before reads, equal reads by their begin.
// If A ends before B begins, V1 and V2 put A's version at or below B's, and below
// it if B is a write; so the order respects time.)
//
// Concurrency: one recorder per thread; merge and check when they rest.
// Lifetime: values.

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace yonder::testing {

enum class HistoryCall : std::uint8_t { kRead, kWrite, kEnd };

struct HistoryEvent {
  std::uint64_t object = 0;
  HistoryCall call = HistoryCall::kRead;
  bool failed = false;  // "There is no such object."
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::uint64_t version = 0;
  std::uint64_t fingerprint = 0;  // Of the value read or written.
};

namespace internal {

inline std::string describe(const HistoryEvent& event, const char* what) {
  const char* names[] = {"read", "write", "end"};
  return "object " + std::to_string(event.object) + ": " + names[static_cast<int>(event.call)] +
         " of version " + std::to_string(event.version) + " [" + std::to_string(event.begin_ns) + ", " +
         std::to_string(event.end_ns) + "]: " + what;
}

// V3, and the half of V2 and V1 that compares with the write of the version.
inline std::optional<std::string> check_versions(const std::vector<HistoryEvent>& events) {
  std::map<std::uint64_t, const HistoryEvent*> writes;
  for (const HistoryEvent& event : events) {
    if (event.call != HistoryCall::kWrite || event.failed) continue;
    if (!writes.emplace(event.version, &event).second) return describe(event, "a second write of it");
  }
  for (const HistoryEvent& event : events) {
    if (event.call != HistoryCall::kRead || event.failed) continue;
    const auto write = writes.find(event.version);
    if (write == writes.end()) return describe(event, "nobody wrote it");
    if (write->second->begin_ns > event.end_ns) return describe(event, "it was written later");
    if (write->second->fingerprint != event.fingerprint) return describe(event, "another value was written");
  }
  return std::nullopt;
}

// The other half: nobody sees less than what had ended before.
inline std::optional<std::string> check_order(std::vector<HistoryEvent> events) {
  std::erase_if(events, [](const HistoryEvent& e) { return e.failed || e.call == HistoryCall::kEnd; });
  std::vector<HistoryEvent> by_end = events;
  std::ranges::sort(by_end, {}, &HistoryEvent::end_ns);
  std::ranges::sort(events, {}, &HistoryEvent::begin_ns);
  std::size_t ended = 0;
  std::optional<std::uint64_t> greatest;
  for (const HistoryEvent& event : events) {
    for (; ended < by_end.size() && by_end[ended].end_ns < event.begin_ns; ++ended) {
      greatest = std::max(greatest.value_or(0), by_end[ended].version);
    }
    if (!greatest) continue;
    if (event.version < *greatest) return describe(event, "a greater one had been seen before");
    if (event.call == HistoryCall::kWrite && event.version == *greatest) {
      return describe(event, "it had been seen before");
    }
  }
  return std::nullopt;
}

// V4.
inline std::optional<std::string> check_end(const std::vector<HistoryEvent>& events) {
  const auto end = std::ranges::find_if(
      events, [](const HistoryEvent& e) { return e.call == HistoryCall::kEnd && !e.failed; });
  for (const HistoryEvent& event : events) {
    if (event.failed && (end == events.end() || event.end_ns < end->begin_ns)) {
      return describe(event, "failed although the object was there");
    }
    if (end != events.end() && &event != &*end && !event.failed && event.begin_ns > end->end_ns) {
      return describe(event, "succeeded although the object was gone");
    }
  }
  return std::nullopt;
}

}  // namespace internal

// What is wrong with the history, or nothing. Events of any objects, in any order.
inline std::optional<std::string> find_violation(const std::vector<HistoryEvent>& history) {
  std::map<std::uint64_t, std::vector<HistoryEvent>> objects;
  for (const HistoryEvent& event : history) objects[event.object].push_back(event);
  for (const auto& [object, events] : objects) {
    if (auto wrong = internal::check_versions(events)) return wrong;
    if (auto wrong = internal::check_order(events)) return wrong;
    if (auto wrong = internal::check_end(events)) return wrong;
  }
  return std::nullopt;
}

}  // namespace yonder::testing
