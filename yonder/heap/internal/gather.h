#pragma once
// Items of a far::vector in another order.
//
// Where local memory holds the vector, or the order is nearly that of the items, each is simply
// fetched. Else almost every item would cost a page, so the order is made by sorting: the wanted
// rows by where they are, so that the vector is read once from front to end, and then what was
// read by where it is wanted. All of that is sequential: shuffling a table twenty times the local
// memory took 1.0 s instead of 7.3 (dataframe_model_test).
//
// Concurrency: as its arguments. Lifetime: values.

#include <compare>
#include <cstddef>
#include <cstdint>

#include "yonder/base/result.h"
#include "yonder/heap/internal/external_sort.h"
#include "yonder/heap/vector.h"

namespace yonder::heap::internal {

// An item and its number; ordered by the item, and equal ones by number.
template <typename T>
struct Numbered {
  T item;
  std::uint64_t number;
  friend bool operator<(const Numbered& a, const Numbered& b) {
    const auto order = std::strong_order(a.item, b.item);
    return order != 0 ? order < 0 : a.number < b.number;
  }
};
// The same, ordered by number.
template <typename T>
struct Placement {
  std::uint64_t number;
  T item;
  friend bool operator<(const Placement& a, const Placement& b) { return a.number < b.number; }
};

// The numbers of the items, the least item's first; equal items in their order.
template <typename T>
Result<vector<std::uint64_t>> sort_order(const vector<T>& items) {
  Sorter<Numbered<T>> sorter;
  std::uint64_t number = 0;
  for (const auto& chunk : items.chunks(Scan::kOnce))
    for (const T& item : chunk) YONDER_TRY_VOID(sorter.add({.item = item, .number = number++}));
  vector<std::uint64_t> rows;
  YONDER_TRY_VOID(rows.try_reserve(items.size()));
  Appender<std::uint64_t> out(rows);
  YONDER_TRY_VOID(sorter.finish([&](const Numbered<T>& next) { return out.add(next.number); }));
  YONDER_TRY_VOID(out.flush());
  return rows;
}

// Whether most rows lie in the chunk of the row before or in the next: fetching them one by one
// is then a walk.
template <typename T>
bool is_nearly_in_order(const vector<std::uint64_t>& rows) {
  std::uint64_t before = 0;
  std::size_t jumps = 0;
  rows.for_each([&](std::uint64_t row) {
    const std::uint64_t chunk = row / vector<T>::items_per_chunk();
    jumps += chunk - before > 1 ? 1 : 0;
    before = chunk;
  });
  return jumps < rows.size() / 64;
}

template <typename T>
Result<vector<T>> gather_directly(const vector<T>& items, const vector<std::uint64_t>& rows) {
  vector<T> gathered;
  YONDER_TRY_VOID(gathered.try_reserve(rows.size()));
  Appender<T> out(gathered);
  for (const auto& chunk : rows.chunks()) {
    for (const std::uint64_t row : chunk) {
      YONDER_TRY(item, items.try_read(row));
      YONDER_TRY_VOID(out.add(*item));
    }
  }
  YONDER_TRY_VOID(out.flush());
  return gathered;
}

template <typename T>
Result<vector<T>> gather_by_sorting(const vector<T>& items, const vector<std::uint64_t>& rows) {
  Sorter<Numbered<std::uint64_t>> by_row;
  std::uint64_t place = 0;
  for (const auto& chunk : rows.chunks(Scan::kOnce))
    for (const std::uint64_t row : chunk) YONDER_TRY_VOID(by_row.add({.item = row, .number = place++}));
  Sorter<Placement<T>> by_place;
  YONDER_TRY_VOID(by_row.finish([&](const Numbered<std::uint64_t>& wanted) -> Result<void> {
    YONDER_TRY(item, items.try_read(wanted.item));
    return by_place.add({.number = wanted.number, .item = *item});
  }));
  vector<T> gathered;
  YONDER_TRY_VOID(gathered.try_reserve(rows.size()));
  Appender<T> out(gathered);
  YONDER_TRY_VOID(by_place.finish([&](const Placement<T>& next) { return out.add(next.item); }));
  YONDER_TRY_VOID(out.flush());
  return gathered;
}

// items[rows[0]], items[rows[1]], … Requires that all rows exist. `local_bytes`: how much of
// local memory may be counted on.
template <typename T>
Result<vector<T>> gather(const vector<T>& items, const vector<std::uint64_t>& rows, std::size_t local_bytes) {
  if (items.size() * sizeof(T) <= local_bytes || is_nearly_in_order<T>(rows))
    return gather_directly(items, rows);
  return gather_by_sorting(items, rows);
}

}  // namespace yonder::heap::internal
