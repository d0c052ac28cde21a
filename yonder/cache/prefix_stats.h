#pragma once
// PrefixStats: gets, hits, sets and deletes per key prefix (`stats detail`).
//
// Off by default, and then one load per command. At most kMaxPrefixes are told apart, so
// that keys without structure cannot fill the memory; further ones are not counted.
//
// Concurrency: any thread.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "yonder/cache/output.h"
#include "yonder/sync/mutex.h"

namespace yonder::cache {

class PrefixStats {
 public:
  static constexpr std::size_t kMaxPrefixes = 10000;

  explicit PrefixStats(char delimiter) : delimiter_(delimiter) {}

  void enable(bool on) { enabled_.store(on, std::memory_order_relaxed); }
  bool enabled() const { return enabled_.load(std::memory_order_relaxed); }

  void count_get(std::string_view key, bool hit);
  void count_set(std::string_view key);
  void count_delete(std::string_view key);
  // "PREFIX p get g hit h set s del d" lines and END.
  void dump(Output& out) const;
  void clear();

 private:
  struct Counts {
    std::uint64_t gets = 0;
    std::uint64_t hits = 0;
    std::uint64_t sets = 0;
    std::uint64_t deletes = 0;
  };
  template <typename Change>
  void change(std::string_view key, Change change);

  const char delimiter_;
  std::atomic<bool> enabled_{false};
  mutable sync::Mutex mutex_;
  std::map<std::string, Counts, std::less<>> prefixes_ YONDER_GUARDED_BY(mutex_);
};

}  // namespace yonder::cache
