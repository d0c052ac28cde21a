#include "yonder/structures/internal/join_heavy.h"

#include <algorithm>
#include <cstring>

#include "yonder/base/prng.h"

namespace yonder::structures::internal {
namespace {

using Count = std::pair<std::string, std::uint64_t>;

// Most rows first; equal ones by key, so that every executor sorts alike.
bool is_heavier(const Count& a, const Count& b) {
  return a.second != b.second ? a.second > b.second : a.first < b.first;
}

std::vector<Count> heaviest(const std::map<std::string, std::uint64_t, std::less<>>& counts,
                            std::uint64_t least, std::uint32_t most) {
  std::vector<Count> kept;
  for (const auto& [key, rows] : counts) {
    if (rows >= least) kept.emplace_back(key, rows);
  }
  std::ranges::sort(kept, is_heavier);
  if (kept.size() > most) kept.resize(most);
  return kept;
}

}  // namespace

std::vector<HeavyAnnouncement> sample_heavy_keys(std::uint64_t rows, std::uint32_t sample,
                                                 const std::function<ShuffleEntry(std::uint64_t)>& at,
                                                 std::uint32_t max_keys) {
  std::vector<HeavyAnnouncement> announcements{{.key = "t", .rows = rows}};
  const std::uint64_t looked_at = std::min<std::uint64_t>(rows, sample);
  if (looked_at == 0) return announcements;
  std::map<std::string, std::uint64_t, std::less<>> counts;
  Prng random(rows);
  for (std::uint64_t i = 0; i < looked_at; ++i) {
    // One row at random of each of looked_at equal parts: the relation may be sorted, or
    // have a period.
    const std::uint64_t first = i * rows / looked_at;
    const std::uint64_t next = (i + 1) * rows / looked_at;
    ++counts[std::string(text_of(at(first + random.below(next - first)).key))];
  }
  // One sighting says nothing about a key.
  for (const Count& count : heaviest(counts, 2, max_keys))
    announcements.push_back({.key = "k" + count.first, .rows = count.second * rows / looked_at});
  return announcements;
}

bool HeavyKeys::hear(const ShuffleEntry& announcement) {
  const std::string_view key = text_of(announcement.key);
  std::uint64_t rows = 0;
  if (key.empty() || announcement.value.size() != sizeof rows) return false;
  std::memcpy(&rows, announcement.value.data(), sizeof rows);
  if (key == "t") {
    rows_ += rows;
    return true;
  }
  if (key.front() != 'k') return false;
  rows_of_[std::string(key.substr(1))] += rows;
  return true;
}

void HeavyKeys::decide() {
  const double fair_share = static_cast<double>(rows_) / options_.executors;
  const auto least = static_cast<std::uint64_t>(fair_share * options_.heavy_share) + 1;
  for (Count& count : heaviest(rows_of_, least, options_.max_keys)) heavy_.insert(std::move(count.first));
  rows_of_.clear();
}

}  // namespace yonder::structures::internal
