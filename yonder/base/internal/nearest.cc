#include "yonder/base/internal/nearest.h"

#include <algorithm>
#include <vector>

namespace yonder::internal {
namespace {

std::string_view last_part(std::string_view word) {
  // Flags are compared without their dashes.
  while (word.starts_with('-')) word.remove_prefix(1);
  return word.substr(word.rfind('.') + 1);
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Rows of the table cost[i][j], prefix i of a against prefix j of b; three are alive.
  std::vector<std::size_t> before_last(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

std::string_view nearest(std::string_view word, std::span<const std::string> known) {
  // Words come from users: a very long one is no typing error and not worth the table.
  constexpr std::size_t kLongestWord = 200;
  if (word.size() > kLongestWord) return {};
  const std::size_t allowed = std::clamp<std::size_t>(word.size() / 3, 1, 3);
  std::string_view best;
  std::size_t best_distance = allowed + 1;
  for (const std::string& candidate : known) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  if (!best.empty()) return best;
  const auto same_end = std::ranges::find(known, last_part(word), last_part);
  return same_end == known.end() ? std::string_view() : std::string_view(*same_end);
}

std::string suggestion(std::string_view word, std::span<const std::string> known) {
  const std::string_view found = nearest(word, known);
  return found.empty() ? std::string() : "; did you mean " + std::string(found) + "?";
}

}  // namespace yonder::internal
