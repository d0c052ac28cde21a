#include "yonder/heap/internal/page_runs.h"

#include <iterator>

#include "yonder/base/check.h"

namespace yonder::heap::internal {
namespace {

std::size_t aligned_up(std::size_t page, std::size_t alignment) {
  return (page + alignment - 1) / alignment * alignment;
}

}  // namespace

void PageRuns::insert(std::size_t first, std::size_t count) {
  if (count == 0) return;
  runs_.emplace(first, count);
  by_size_.emplace(count, first);
  free_ += count;
}

void PageRuns::erase(ByAddress::iterator run) {
  by_size_.erase({run->second, run->first});
  free_ -= run->second;
  runs_.erase(run);
}

void PageRuns::cut(ByAddress::iterator run, std::size_t first, std::size_t count) {
  const auto [begin, length] = *run;
  erase(run);
  insert(begin, first - begin);
  insert(first + count, begin + length - first - count);
}

std::optional<std::size_t> PageRuns::take(std::size_t count, std::size_t alignment) {
  const sync::SpinGuard guard(lock_);
  for (auto fit = by_size_.lower_bound({count, 0}); fit != by_size_.end(); ++fit) {
    const std::size_t first = aligned_up(fit->second, alignment);
    if (first + count > fit->second + fit->first) continue;
    cut(runs_.find(fit->second), first, count);
    return first;
  }
  return std::nullopt;
}

bool PageRuns::take_at(std::size_t first, std::size_t count) {
  const sync::SpinGuard guard(lock_);
  auto run = runs_.upper_bound(first);
  if (run == runs_.begin()) return false;
  --run;
  if (first + count > run->first + run->second) return false;
  cut(run, first, count);
  return true;
}

void PageRuns::give(std::size_t first, std::size_t count) {
  const sync::SpinGuard guard(lock_);
  auto after = runs_.lower_bound(first);
  YONDER_CHECK(after == runs_.end() || first + count <= after->first, "pages are given back once");
  if (after != runs_.end() && first + count == after->first) {
    count += after->second;
    erase(after);
    after = runs_.lower_bound(first);
  }
  if (after != runs_.begin()) {
    const auto before = std::prev(after);
    YONDER_CHECK(before->first + before->second <= first, "pages are given back once");
    if (before->first + before->second == first) {
      first = before->first;
      count += before->second;
      erase(before);
    }
  }
  insert(first, count);
}

std::size_t PageRuns::free_pages() const {
  const sync::SpinGuard guard(lock_);
  return free_;
}

}  // namespace yonder::heap::internal
