#include "bench/heap/page_views.h"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "bench/heap/memory.h"
#include "bench/heap/workers.h"
#include "yonder/base/distribution.h"
#include "yonder/base/prng.h"
#include "yonder/heap/slot_store.h"

namespace yonder::bench::heap {
namespace {

struct View {
  std::uint64_t page;
  std::uint32_t bytes;
  std::uint32_t hour;
};
// The next views are known, so their entries are asked for early, whatever the memory.
constexpr std::size_t kViewsAhead = 8;
constexpr std::size_t kViewsPerPage = far::kPageBytes / sizeof(View);

// 80 bytes.
template <typename Memory>
struct ViewEntry {
  std::uint64_t page = 0;
  typename Memory::template Ptr<ViewEntry> next;
  std::uint64_t views = 0;
  std::uint64_t bytes = 0;
  std::array<char, 48> title{};
};

struct Total {
  std::uint64_t page;
  std::uint64_t views;
};

}  // namespace
}  // namespace yonder::bench::heap

template <typename Memory>
struct yonder::heap::is_relocatable<yonder::bench::heap::ViewEntry<Memory>> : std::true_type {};

namespace yonder::bench::heap {
namespace {

template <typename Memory>
class ViewTable {
 public:
  explicit ViewTable(std::size_t buckets) : buckets_(std::bit_ceil(buckets)) {}

  std::size_t buckets() const { return buckets_.size(); }

  // Hints that the view will be added soon: first has the bucket come near, the other the entry it
  // points to.
  void prefetch_bucket(const View& view) const { __builtin_prefetch(&buckets_[number_of(view)]); }
  void prefetch(const View& view) const { buckets_[number_of(view)].prefetch(); }
  void add(const View& view) {
    EntryPtr& bucket = buckets_[number_of(view)];
    if (bucket) {
      for (auto entry = bucket.write();; entry = entry->next.write()) {
        if (entry->page == view.page) return count(*entry, view);
        if (!entry->next) break;
      }
    }
    EntryPtr added = Memory::template make<ViewEntry<Memory>>();
    const auto entry = added.write();
    entry->page = view.page;
    entry->title.fill(static_cast<char>('a' + view.page % 26));
    entry->next = std::move(bucket);
    count(*entry, view);
    bucket = std::move(added);
  }

  // Calls visit(entry) for each of the bucket.
  template <typename Visit>
  void for_each(std::size_t bucket, Visit visit) const {
    if (!buckets_[bucket]) return;
    for (auto entry = buckets_[bucket].read();; entry = entry->next.read()) {
      visit(*entry);
      if (!entry->next) return;
    }
  }

 private:
  using EntryPtr = typename Memory::template Ptr<ViewEntry<Memory>>;

  std::size_t number_of(const View& view) const {
    std::uint64_t mixed = view.page;
    return splitmix64(mixed) & (buckets_.size() - 1);
  }
  static void count(ViewEntry<Memory>& entry, const View& view) {
    ++entry.views;
    entry.bytes += view.bytes;
  }

  std::vector<EntryPtr> buckets_;
};

// Totals of one thread, written one after the other.
template <typename Memory>
class Totals {
 public:
  void add(const Total& total) {
    if (used_ % kPerPage == 0) pages_.push_back(Memory::template make_array<Total>(kPerPage));
    pages_.back().write()[used_++ % kPerPage] = total;
  }

 private:
  static constexpr std::size_t kPerPage = far::kPageBytes / sizeof(Total);
  std::vector<typename Memory::template Ptr<Total[]>> pages_;
  std::size_t used_ = 0;
};

template <typename Memory>
using Log = std::vector<typename Memory::template Ptr<View[]>>;

template <typename Memory>
void write_log(Log<Memory>& log, std::size_t begin, std::size_t end, const Zipfian& popularity, Prng random) {
  for (std::size_t p = begin; p < end; ++p) {
    log[p] = Memory::template make_array<View>(kViewsPerPage);
    const auto views = log[p].write();
    for (std::size_t i = 0; i < kViewsPerPage; ++i)
      views[i] = {.page = popularity.next(random),
                  .bytes = static_cast<std::uint32_t>(random.below(100'000)),
                  .hour = static_cast<std::uint32_t>(p * 24 / log.size())};
  }
}

template <typename Memory>
void map_views(const Log<Memory>& log, std::size_t begin, std::size_t end, ViewTable<Memory>& table,
               Measured& measured) {
  for (std::size_t p = begin; p < end; ++p) {
    const auto views = log[p].read();
    const auto ahead = [&](std::size_t i) -> const View& { return views[std::min(i, kViewsPerPage - 1)]; };
    for (std::size_t i = 0; i < kViewsPerPage; ++i) {
      table.prefetch_bucket(ahead(i + 2 * kViewsAhead));
      table.prefetch(ahead(i + kViewsAhead));
      table.add(views[i]);
    }
    measured.operations += kViewsPerPage;
  }
}

// The entries of one bucket of all tables, those of one page together.
template <typename Memory>
void reduce_bucket(const std::vector<ViewTable<Memory>>& tables, std::size_t bucket,
                   std::vector<Total>& found, Totals<Memory>& totals, Measured& measured) {
  found.clear();
  for (const ViewTable<Memory>& table : tables) {
    table.for_each(bucket, [&](const ViewEntry<Memory>& entry) {
      measured.wrong_objects += entry.title[47] == static_cast<char>('a' + entry.page % 26) ? 0 : 1;
      measured.checksum += entry.page * entry.views + entry.bytes;
      ++measured.operations;
      for (Total& total : found)
        if (total.page == entry.page) return void(total.views += entry.views);
      found.push_back({.page = entry.page, .views = entry.views});
    });
  }
  for (const Total& total : found) totals.add(total);
}

}  // namespace

template <typename Memory>
Measured run_page_views(const Work& work) {
  // Half of the bytes are log; an entry for every three views is the other half.
  const std::size_t pages = work.bytes / 2 / far::kPageBytes / work.threads * work.threads;
  const std::uint64_t titles = pages * kViewsPerPage / 6 + 100;
  const Zipfian popularity({.items = titles, .theta = 0.7});
  const auto part = [&](unsigned t) { return pages * t / work.threads; };
  Log<Memory> log(pages);
  on_threads(work.threads, [&](unsigned t) {
    write_log<Memory>(log, part(t), part(t + 1), popularity, Prng(work.seed * 11 + t));
  });
  std::vector<ViewTable<Memory>> tables;
  for (unsigned t = 0; t < work.threads; ++t) tables.emplace_back(titles);
  std::vector<Totals<Memory>> totals(work.threads);
  std::vector<Measured> results(work.threads);
  if (work.on_measure) work.on_measure();
  const Instant begin = os::SteadyClock::read();
  on_threads(work.threads,
             [&](unsigned t) { map_views<Memory>(log, part(t), part(t + 1), tables[t], results[t]); });
  on_threads(work.threads, [&](unsigned t) {
    std::vector<Total> found;
    for (std::size_t bucket = t; bucket < tables[0].buckets(); bucket += work.threads)
      reduce_bucket(tables, bucket, found, totals[t], results[t]);
  });
  return finish(work, results, seconds_since(begin));
}

template Measured run_page_views<Far>(const Work&);
template Measured run_page_views<Plain>(const Work&);
template Measured run_page_views<Faulted>(const Work&);

}  // namespace yonder::bench::heap
