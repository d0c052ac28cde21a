#pragma once
// Which keys are heavy: those that so many probe rows have that one executor must not
// get them all.
//
// Each executor announces the frequent keys of a sample with the number of rows they
// stand for, and how many rows it has; every executor adds up the announcements of all.
// Sums do not depend on the order of what is added, ties are decided by the key, and so
// all come to the same set without another word.
//
// Concurrency: one thread. Lifetime: owns copies of the keys.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "yonder/structures/shuffle.h"

namespace yonder::structures::internal {

inline std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

struct HeavyKeyOptions {
  std::uint32_t executors = 1;
  double heavy_share = 0.1;  // of the rows of an executor's fair share
  std::uint32_t max_keys = 256;
};

// A message of round 0: a key and its rows; without a key the rows of the relation.
//
//   entry key: 'k' and the key, or 't'; entry value: rows, 8 bytes
struct HeavyAnnouncement {
  std::string key;
  std::uint64_t rows = 0;
};

// What an executor announces: its number of rows, and the keys that `sample` of its
// `rows` rows had more than once, most frequent first, at most max_keys. `at` gives the
// key of a row; a `sample` of 0 announces no key.
std::vector<HeavyAnnouncement> sample_heavy_keys(std::uint64_t rows, std::uint32_t sample,
                                                 const std::function<ShuffleEntry(std::uint64_t)>& at,
                                                 std::uint32_t max_keys);

class HeavyKeys {
 public:
  explicit HeavyKeys(const HeavyKeyOptions& options) : options_(options) {}

  // Of any executor, ours included. False if it is no announcement.
  bool hear(const ShuffleEntry& announcement);
  // After the announcements of all.
  void decide();

  bool contains(std::span<const std::byte> key) const {
    return !heavy_.empty() && heavy_.contains(text_of(key));
  }
  std::size_t size() const { return heavy_.size(); }

 private:
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return shuffle_hash(std::as_bytes(std::span(text)));
    }
  };

  const HeavyKeyOptions options_;
  std::map<std::string, std::uint64_t, std::less<>> rows_of_;
  std::uint64_t rows_ = 0;
  std::unordered_set<std::string, TextHash, std::equal_to<>> heavy_;
};

}  // namespace yonder::structures::internal
