#include "yonder/heap/dataframe.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

#include "yonder/heap/internal/external_sort.h"
#include "yonder/heap/internal/gather.h"
#include "yonder/heap/internal/runtime.h"
#include "yonder/heap/unordered_map.h"

namespace yonder::heap {

template <>
struct KeyTraits<Text16> {
  using View = const Text16&;
  static std::uint64_t hash(View key) {
    return std::hash<std::string_view>{}({key.bytes.data(), key.bytes.size()});
  }
  static bool equal(const Text16& kept, View key) { return kept == key; }
  static Result<Text16> keep(View key) { return key; }
};

namespace {

using internal::Appender;

std::size_t size_of(const dataframe::Values& values) {
  return std::visit([](const auto& items) { return items.size(); }, values);
}

// How much of local memory one operation counts on: others have data as well.
std::size_t local_share() { return internal::g_runtime->local().count() / 2; }

Result<void> check_rows(const vector<std::uint64_t>& chosen, std::uint64_t rows) {
  std::uint64_t most = 0;
  chosen.for_each([&](std::uint64_t row) { most = std::max(most, row); });
  if (chosen.empty() || most < rows) return {};
  return fail(ErrorCode::kOutOfBounds, "dataframe: no such row", static_cast<std::int64_t>(most));
}

// A random order of so many rows, by sorting random numbers: exchanging rows at random would cost
// a page for each where local memory does not hold the order.
Result<vector<std::uint64_t>> random_order(std::size_t rows, Prng& random) {
  vector<std::uint64_t> numbers;
  Appender<std::uint64_t> out(numbers);
  for (std::size_t i = 0; i < rows; ++i) YONDER_TRY_VOID(out.add(random()));
  YONDER_TRY_VOID(out.flush());
  return internal::sort_order(numbers);
}

// ---------------------------------------------------------------- groups

template <typename N>
struct Totals {
  std::int64_t count = 0;
  N sum{};
};

// False: the sum has no room in its type.
template <typename N>
bool add_to(Totals<N>& totals, N value) {
  ++totals.count;
  if constexpr (std::is_integral_v<N>) return !__builtin_add_overflow(totals.sum, value, &totals.sum);
  totals.sum += value;
  return true;
}

// Both columns side by side: chunk borders differ where the items' sizes do.
template <typename K, typename N>
Result<unordered_map<K, Totals<N>>> totals_of(const vector<K>& keys, const vector<N>& values) {
  unordered_map<K, Totals<N>> groups;
  internal::RunReader<K> key(keys.all());
  internal::RunReader<N> value(values.all());
  for (; !key.done(); key.next(), value.next()) {
    YONDER_TRY(totals, groups.try_write_or_insert(key.item()));
    if (!add_to(*totals, value.item()))
      return fail(ErrorCode::kInvalidArgument, "dataframe: a sum of integers is beyond 64 bits");
  }
  return groups;
}

template <typename K, typename N>
Result<dataframe> grouped(const std::string& name, const vector<K>& keys, const vector<N>& values) {
  YONDER_TRY(groups, totals_of(keys, values));
  vector<K> group_keys;
  vector<std::int64_t> counts;
  vector<N> sums;
  vector<double> means;
  YONDER_TRY_VOID(counts.try_reserve(groups.size()));
  YONDER_TRY_VOID(group_keys.try_reserve(groups.size()));
  YONDER_TRY_VOID(sums.try_reserve(groups.size()));
  YONDER_TRY_VOID(means.try_reserve(groups.size()));
  groups.for_each([&](const K& key, const Totals<N>& totals) {
    group_keys.push_back(key);
    counts.push_back(totals.count);
    sums.push_back(totals.sum);
    means.push_back(static_cast<double>(totals.sum) / static_cast<double>(totals.count));
  });
  dataframe table;
  YONDER_TRY_VOID(table.add(name, std::move(group_keys)));
  YONDER_TRY_VOID(table.add("count", std::move(counts)));
  YONDER_TRY_VOID(table.add("sum", std::move(sums)));
  YONDER_TRY_VOID(table.add("mean", std::move(means)));
  return table.sort_by(name);
}

// ---------------------------------------------------------------- summaries

template <typename N>
Summary summary_of(const vector<N>& items) {
  Summary summary{.count = items.size()};
  std::optional<N> least;
  std::optional<N> most;
  items.for_each([&](N item) {
    summary.sum += static_cast<double>(item);
    if constexpr (std::is_floating_point_v<N>) {
      if (std::isnan(item)) return;
    }
    if (!least || item < *least) least = item;
    if (!most || *most < item) most = item;
  });
  summary.min = static_cast<double>(least.value_or(N{}));
  summary.max = static_cast<double>(most.value_or(N{}));
  return summary;
}

template <typename T>
inline constexpr bool kIsNumber = std::is_arithmetic_v<T>;

}  // namespace

// ---------------------------------------------------------------- columns

Result<void> dataframe::add(std::string name, Values values) {
  if (find(name)) return fail(ErrorCode::kAlreadyExists, "dataframe: there is a column of this name");
  if (!columns_.empty() && size_of(values) != rows())
    return fail(ErrorCode::kInvalidArgument, "dataframe: a column has as many items as the others",
                static_cast<std::int64_t>(size_of(values)));
  columns_.push_back({.name = std::move(name), .values = std::move(values)});
  return {};
}

std::size_t dataframe::rows() const { return columns_.empty() ? 0 : size_of(columns_.front().values); }

Result<const dataframe::Values*> dataframe::find(std::string_view name) const {
  const auto column = std::ranges::find(columns_, name, &Column::name);
  if (column == columns_.end()) return fail(ErrorCode::kNotFound, "dataframe: no column of this name");
  return &column->values;
}

// ---------------------------------------------------------------- tables

Result<dataframe> dataframe::copy() const {
  dataframe made;
  for (const Column& column : columns_) {
    const auto clone = [](const auto& items) -> Result<Values> {
      YONDER_TRY(items_copy, items.try_clone());
      return Values(std::move(items_copy));
    };
    YONDER_TRY(values, std::visit(clone, column.values));
    YONDER_TRY_VOID(made.add(column.name, std::move(values)));
  }
  return made;
}

Result<dataframe> dataframe::take(const vector<std::uint64_t>& chosen) const {
  YONDER_TRY_VOID(check_rows(chosen, rows()));
  dataframe made;
  for (const Column& column : columns_) {
    const auto pick = [&](const auto& items) -> Result<Values> {
      YONDER_TRY(taken, internal::gather(items, chosen, local_share()));
      return Values(std::move(taken));
    };
    YONDER_TRY(values, std::visit(pick, column.values));
    YONDER_TRY_VOID(made.add(column.name, std::move(values)));
  }
  return made;
}

Result<dataframe> dataframe::shuffle(Prng& random) const {
  YONDER_TRY(order, random_order(rows(), random));
  return take(order);
}

Result<dataframe> dataframe::sort_by(std::string_view name) const {
  YONDER_TRY(values, find(name));
  YONDER_TRY(order, std::visit([](const auto& items) { return internal::sort_order(items); }, *values));
  return take(order);
}

Result<dataframe> dataframe::group_by(std::string_view key, std::string_view value) const {
  YONDER_TRY(keys, find(key));
  YONDER_TRY(values, find(value));
  return std::visit(
      [&]<typename K, typename N>(const vector<K>& key_items, const vector<N>& items) -> Result<dataframe> {
        if constexpr (!std::is_same_v<K, double> && kIsNumber<N>)
          return grouped(std::string(key), key_items, items);
        return fail(ErrorCode::kInvalidArgument,
                    "dataframe: groups are of integers or texts, sums of numbers");
      },
      *keys, *values);
}

Result<Summary> dataframe::summary(std::string_view name) const {
  YONDER_TRY(values, find(name));
  return std::visit(
      []<typename T>(const vector<T>& items) -> Result<Summary> {
        if constexpr (kIsNumber<T>) return summary_of(items);
        return fail(ErrorCode::kInvalidArgument, "dataframe: a summary is of numbers");
      },
      *values);
}

}  // namespace yonder::heap
