#pragma once
// far::dataframe: a table of columns in far memory, and the usual operations on it.
//
//   far::dataframe trips;
//   YONDER_TRY_VOID(trips.add("city", std::move(cities)));          // far::vector<far::Text16>
//   YONDER_TRY_VOID(trips.add("meters", std::move(meters)));        // far::vector<std::int64_t>
//   YONDER_TRY(far_ones, trips.filter<std::int64_t>("meters", [](std::int64_t m) { return m > 9000; }));
//   YONDER_TRY(by_city, far_ones.group_by("city", "meters"));       // city, count, sum, mean
//
// Each column is a far::vector of 64-bit integers, of doubles, or of texts of up to 16 bytes. All
// operations but min, max and mean make a new table and leave this one as it is.
//
//   operation   reads                                      far memory besides the result
//   copy        each column once                           none
//   filter      the column, and chosen rows, in order      8 bytes per chosen row
//   take        each column once (see below)               twice 16 to 24 bytes per chosen row
//   shuffle     random numbers, sorted; then as take       as take, and 8 bytes per row
//   sort_by     the column; then as take                   as take, and 8 bytes per row
//   group_by    both columns once                          one map entry (64 bytes) per group
//   summary     the column once                            none
//
// take() fetches row by row only where local memory holds the column, or the rows are nearly in
// order; else it makes the new order by sorting (internal/gather.h), because at random almost
// each row would cost a page.
//
// Local memory besides the heap's: 8 bytes per 4 KiB of column; while rows are sorted twice 384
// KiB. At most seven pages are held at a time.
//
// Errors: kNotFound (no such column), kInvalidArgument (its type; lengths that differ; an integer
// sum beyond 64 bits), kAlreadyExists (a column's name), kOutOfBounds (a row), kOutOfMemory and
// the node's.
//
// Concurrency: const calls by many threads, add() by one alone.
// Lifetime: the heap outlives it.

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/base/result.h"
#include "yonder/heap/vector.h"

namespace yonder::heap {

// Up to 16 bytes of text, padded with zeroes.
struct Text16 {
  std::array<char, 16> bytes{};

  // What is longer is cut.
  static Text16 of(std::string_view text) {
    Text16 made;
    text.substr(0, made.bytes.size()).copy(made.bytes.data(), made.bytes.size());
    return made;
  }
  std::string_view view() const {
    const std::string_view all(bytes.data(), bytes.size());
    return all.substr(0, all.find('\0'));
  }
  friend auto operator<=>(const Text16&, const Text16&) = default;
};

// Of a column of numbers. NaNs count, and make sum and mean NaN; min and max pass over them.
struct Summary {
  std::uint64_t count = 0;
  double sum = 0;
  double min = 0;  // Of no rows: 0.
  double max = 0;
  double mean() const { return count == 0 ? 0 : sum / static_cast<double>(count); }
};

class dataframe {
 public:
  using Values = std::variant<vector<std::int64_t>, vector<double>, vector<Text16>>;

  // Adds a column. kInvalidArgument: it has not as many items as the others.
  Result<void> add(std::string name, Values values);

  std::size_t rows() const;
  std::size_t columns() const { return columns_.size(); }
  const std::string& name(std::size_t column) const { return columns_[column].name; }
  // A column's items. T: std::int64_t, double or Text16.
  template <typename T>
  Result<const vector<T>*> column(std::string_view name) const {
    YONDER_TRY(values, find(name));
    if (const auto* const typed = std::get_if<vector<T>>(values)) return typed;
    return fail(ErrorCode::kInvalidArgument, "dataframe: the column has another type");
  }

  Result<dataframe> copy() const;
  // The rows for whose item in the column `wanted(item)` is true, in order.
  template <typename T, typename F>
  Result<dataframe> filter(std::string_view name, F&& wanted) const {
    YONDER_TRY(items, column<T>(name));
    vector<std::uint64_t> chosen;
    std::uint64_t row = 0;
    for (const auto& chunk : items->chunks(Scan::kKeep)) {
      for (const T& item : chunk) {
        if (wanted(item)) YONDER_TRY_VOID(chosen.try_emplace_back(row));
        ++row;
      }
    }
    return take(chosen);
  }
  // These rows, in this order; a row may come more than once.
  Result<dataframe> take(const vector<std::uint64_t>& chosen) const;
  // All rows in an order that `random` gives.
  Result<dataframe> shuffle(Prng& random) const;
  // All rows, the least first; equal ones keep their order, and NaNs are at the ends by sign.
  Result<dataframe> sort_by(std::string_view name) const;
  // For each item of the column `key` (integers or texts), in their order: itself, and of the
  // column `value` (numbers) "count" (integers), "sum" (as the column) and "mean" (doubles).
  Result<dataframe> group_by(std::string_view key, std::string_view value) const;
  // Of a column of numbers.
  Result<Summary> summary(std::string_view name) const;

 private:
  struct Column {
    std::string name;
    Values values;
  };
  Result<const Values*> find(std::string_view name) const;

  std::vector<Column> columns_;
};

}  // namespace yonder::heap
