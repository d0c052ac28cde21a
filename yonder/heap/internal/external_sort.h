#pragma once
// Sorting more than local memory holds: runs that are sorted in local memory, written to far
// memory, and merged, each pass reading kWays streams and writing one.
//
//   Sorter<Record> sorter;
//   YONDER_TRY_VOID(sorter.add(record)); …
//   YONDER_TRY_VOID(sorter.finish([&](const Record& next) -> Result<void> { … }));
//
// Local memory besides the heap's: one run (384 KiB) and a page for what is being written. Far
// memory: twice the records, none if they are one run. kWays + 1 pages are held at a time.
//
// Concurrency: one thread. Lifetime: the heap outlives it.

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/heap/span.h"
#include "yonder/heap/vector.h"

namespace yonder::heap::internal {

// Collects items for the end of a vector, so that there is one barrier for many.
template <typename T>
class Appender {
 public:
  explicit Appender(vector<T>& to) : to_(&to) { items_.reserve(kItems); }
  Result<void> add(const T& item) {
    items_.push_back(item);
    return items_.size() < kItems ? Result<void>() : flush();
  }
  Result<void> flush() {
    YONDER_TRY_VOID(to_->try_append(items_));
    items_.clear();
    return {};
  }

 private:
  static constexpr std::size_t kItems = vector<T>::items_per_chunk();
  vector<T>* to_;
  std::vector<T> items_;
};

// Reads a span in order, holding one chunk.
template <typename T>
class RunReader {
 public:
  explicit RunReader(span<const T> run) : at_(run.chunks(Scan::kOnce).begin()) { open(); }
  bool done() const { return at_ == std::default_sentinel; }
  const T& item() const { return chunk_[place_]; }
  void next() {
    if (++place_ < chunk_.size()) return;
    chunk_.reset();
    ++at_;
    open();
  }

 private:
  void open() {
    place_ = 0;
    if (!done()) chunk_ = *at_;
  }
  typename ChunkWalk<const T, kPageBytes>::Iterator at_;
  Guard<const T[]> chunk_;
  std::size_t place_ = 0;
};

// Records are plain data with operator<. Which of two equal ones comes first is not said.
template <typename Record>
class Sorter {
  // A pass costs as much as copying all; more ways would need more guards than a thread has
  // hazard slots.
  static constexpr std::size_t kWays = 4;
  static constexpr std::size_t kRunItems = (std::size_t{384} << 10) / sizeof(Record);

 public:
  Result<void> add(const Record& record) {
    run_.push_back(record);
    return run_.size() < kRunItems ? Result<void>() : write_run();
  }

  // Calls emit(record) for all, in order; emit returns Result<void>. Nothing may be added then.
  template <typename F>
  Result<void> finish(F&& emit) {
    if (runs_.empty()) {
      std::sort(run_.begin(), run_.end());
      for (const Record& record : run_) YONDER_TRY_VOID(emit(record));
      return {};
    }
    if (!run_.empty()) YONDER_TRY_VOID(write_run());
    run_ = {};
    std::size_t length = kRunItems;
    for (; length * kWays < runs_.size(); length *= kWays) YONDER_TRY_VOID(merge_all(length));
    return merge(0, length, emit);
  }

 private:
  Result<void> write_run() {
    std::sort(run_.begin(), run_.end());
    YONDER_TRY_VOID(runs_.try_append(run_));
    run_.clear();
    return {};
  }
  // Runs of `length` become runs of kWays times that.
  Result<void> merge_all(std::size_t length) {
    vector<Record> merged;
    Appender<Record> out(merged);
    for (std::size_t first = 0; first < runs_.size(); first += kWays * length)
      YONDER_TRY_VOID(merge(first, length, [&](const Record& record) { return out.add(record); }));
    YONDER_TRY_VOID(out.flush());
    runs_ = std::move(merged);
    return {};
  }
  // The kWays runs of `length` from `first` on.
  template <typename F>
  Result<void> merge(std::size_t first, std::size_t length, F&& emit) const {
    std::array<std::optional<RunReader<Record>>, kWays> readers;
    for (auto& reader : readers) {
      const std::size_t begin = std::min(first, runs_.size());
      const std::size_t count = std::min(length, runs_.size() - begin);
      reader.emplace(runs_.all().subspan(begin, count));
      first += length;
    }
    for (;;) {
      RunReader<Record>* least = nullptr;
      for (auto& reader : readers)
        if (!reader->done() && (least == nullptr || reader->item() < least->item())) least = &*reader;
      if (least == nullptr) return {};
      YONDER_TRY_VOID(emit(least->item()));
      least->next();
    }
  }

  std::vector<Record> run_;
  vector<Record> runs_;
};

}  // namespace yonder::heap::internal
