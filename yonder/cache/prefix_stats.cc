#include "yonder/cache/prefix_stats.h"

namespace yonder::cache {

template <typename Change>
void PrefixStats::change(std::string_view key, Change change) {
  const std::size_t length = key.find(delimiter_);
  // As memcached: a key that begins with the delimiter, or has none, has no prefix.
  if (length == 0 || length == std::string_view::npos) return;
  const std::string_view prefix = key.substr(0, length);
  const sync::LockGuard lock(mutex_);
  auto found = prefixes_.find(prefix);
  if (found == prefixes_.end()) {
    if (prefixes_.size() >= kMaxPrefixes) return;
    found = prefixes_.emplace(prefix, Counts{}).first;
  }
  change(found->second);
}

void PrefixStats::count_get(std::string_view key, bool hit) {
  if (!enabled()) return;
  change(key, [&](Counts& counts) {
    ++counts.gets;
    counts.hits += hit ? 1 : 0;
  });
}

void PrefixStats::count_set(std::string_view key) {
  if (enabled()) change(key, [](Counts& counts) { ++counts.sets; });
}

void PrefixStats::count_delete(std::string_view key) {
  if (enabled()) change(key, [](Counts& counts) { ++counts.deletes; });
}

void PrefixStats::dump(Output& out) const {
  const sync::LockGuard lock(mutex_);
  for (const auto& [prefix, counts] : prefixes_) {
    out.append("PREFIX ");
    out.append(prefix);
    out.append(" get ");
    out.append_number(counts.gets);
    out.append(" hit ");
    out.append_number(counts.hits);
    out.append(" set ");
    out.append_number(counts.sets);
    out.append(" del ");
    out.append_number(counts.deletes);
    out.append("\r\n");
  }
  out.append("END\r\n");
}

void PrefixStats::clear() {
  const sync::LockGuard lock(mutex_);
  prefixes_.clear();
}

}  // namespace yonder::cache
