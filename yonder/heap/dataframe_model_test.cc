// far::dataframe against plain vectors, with a budget of five percent and a heap that is shaken
// all the time.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/heap/dataframe.h"
#include "yonder/heap/test_support.h"
#include "yonder/testing/sanitizer.h"
#include "yonder/testing/seed.h"

namespace yonder::heap {
namespace {

// Twenty times the local memory, five times under a sanitizer.
constexpr std::size_t kData = testing::scaled(kMuchDataBytes, std::size_t{4});

struct Row {
  std::int64_t number;
  double weight;
  std::string city;
  friend bool operator==(const Row&, const Row&) = default;
};

Row random_row(Prng& random) {
  return {.number = static_cast<std::int64_t>(random.below(1000)) - 500,
          .weight = random.uniform_double(),
          .city = "city " + std::to_string(random.below(300))};
}

dataframe table_of(const std::vector<Row>& rows) {
  vector<std::int64_t> numbers;
  vector<double> weights;
  vector<Text16> cities;
  for (const Row& row : rows) {
    numbers.push_back(row.number);
    weights.push_back(row.weight);
    cities.push_back(Text16::of(row.city));
  }
  dataframe table;
  EXPECT_TRUE(table.add("number", std::move(numbers)));
  EXPECT_TRUE(table.add("weight", std::move(weights)));
  EXPECT_TRUE(table.add("city", std::move(cities)));
  return table;
}

std::vector<Row> rows_of(const dataframe& table) {
  const auto* const numbers = *table.column<std::int64_t>("number");
  const auto* const weights = *table.column<double>("weight");
  const auto* const cities = *table.column<Text16>("city");
  std::vector<Row> rows;
  for (std::size_t i = 0; i < table.rows(); ++i)
    rows.push_back(
        {.number = numbers->get(i), .weight = weights->get(i), .city = std::string(cities->read(i)->view())});
  return rows;
}

// std::stable_sort of this library uses what C++20 has removed.
template <typename Key>
std::vector<Row> sorted_stably(const std::vector<Row>& rows, Key key) {
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    const auto by_key = std::invoke(key, rows[a]) <=> std::invoke(key, rows[b]);
    return by_key != 0 ? by_key < 0 : a < b;
  });
  std::vector<Row> sorted;
  for (const std::size_t row : order) sorted.push_back(rows[row]);
  return sorted;
}

class DataframeModel : public ::testing::TestWithParam<Mode> {
 public:
  void SetUp() override {
    heap_ = make_small_heap(GetParam());
    shaker_.emplace(*heap_);
    // 32 bytes each.
    for (std::size_t i = 0; i < kData / 32; ++i) rows_.push_back(random_row(random_));
    table_ = table_of(rows_);
  }
  void TearDown() override {
    table_ = {};
    shaker_.reset();
  }

 protected:
  Prng random_{testing::test_seed()};
  std::unique_ptr<Heap> heap_;
  std::optional<Shaker> shaker_;
  std::vector<Row> rows_;
  dataframe table_;
};

TEST_P(DataframeModel, Copies) {
  const auto copy = table_.copy();
  ASSERT_TRUE(copy);
  ASSERT_EQ(rows_of(*copy), rows_);
}

TEST_P(DataframeModel, Filters) {
  const auto chosen =
      table_.filter<std::int64_t>("number", [](std::int64_t number) { return number < -100; });
  ASSERT_TRUE(chosen);
  std::vector<Row> expected;
  std::ranges::copy_if(rows_, std::back_inserter(expected), [](const Row& row) { return row.number < -100; });
  ASSERT_EQ(rows_of(*chosen), expected);
}

TEST_P(DataframeModel, Shuffles) {
  auto shuffled = table_.shuffle(random_);
  ASSERT_TRUE(shuffled);
  std::vector<Row> got = rows_of(*shuffled);
  ASSERT_NE(got, rows_);
  const auto less = [](const Row& a, const Row& b) { return a.weight < b.weight; };
  std::ranges::sort(got, less);
  std::vector<Row> expected = rows_;
  std::ranges::sort(expected, less);
  ASSERT_EQ(got, expected);
}

TEST_P(DataframeModel, SortsStably) {
  std::vector<Row> expected = sorted_stably(rows_, &Row::number);
  const auto by_number = table_.sort_by("number");
  ASSERT_TRUE(by_number);
  ASSERT_EQ(rows_of(*by_number), expected);
  expected = sorted_stably(expected, &Row::city);
  const auto by_city = by_number->sort_by("city");
  ASSERT_TRUE(by_city);
  ASSERT_EQ(rows_of(*by_city), expected);
}

TEST_P(DataframeModel, GroupsBy) {
  struct Twin {
    std::int64_t count = 0;
    std::int64_t sum = 0;
  };
  std::map<std::string, Twin> expected;
  for (const Row& row : rows_) {
    ++expected[row.city].count;
    expected[row.city].sum += row.number;
  }
  const auto groups = table_.group_by("city", "number");
  ASSERT_TRUE(groups);
  ASSERT_EQ(groups->rows(), expected.size());
  std::size_t row = 0;
  for (const auto& [city, twin] : expected) {
    ASSERT_EQ((*groups->column<Text16>("city"))->read(row)->view(), city);
    ASSERT_EQ((*groups->column<std::int64_t>("count"))->get(row), twin.count);
    ASSERT_EQ((*groups->column<std::int64_t>("sum"))->get(row), twin.sum);
    ASSERT_EQ((*groups->column<double>("mean"))->get(row),
              static_cast<double>(twin.sum) / static_cast<double>(twin.count));
    ++row;
  }
}

TEST_P(DataframeModel, Summarises) {
  const auto summary = table_.summary("weight");
  ASSERT_TRUE(summary);
  const auto [least, most] = std::ranges::minmax(rows_, {}, &Row::weight);
  ASSERT_EQ(summary->min, least.weight);
  ASSERT_EQ(summary->max, most.weight);
  double sum = 0;
  for (const Row& row : rows_) sum += row.weight;
  ASSERT_EQ(summary->sum, sum);
  ASSERT_EQ(summary->mean(), sum / static_cast<double>(rows_.size()));
}

INSTANTIATE_TEST_SUITE_P(Modes, DataframeModel, all_modes(), name_of_mode);

TEST(Dataframe, RefusesWhatDoesNotFit) {
  const auto heap = make_small_heap(Mode::kHybrid);
  dataframe table;
  EXPECT_EQ(table.rows(), 0u);
  ASSERT_TRUE(table.add("a", vector<std::int64_t>(3)));
  EXPECT_EQ(table.add("a", vector<std::int64_t>(3)).error(), ErrorCode::kAlreadyExists);
  EXPECT_EQ(table.add("b", vector<double>(4)).error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(table.column<double>("a").error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(table.column<double>("c").error(), ErrorCode::kNotFound);
  ASSERT_TRUE(table.add("b", vector<double>(3)));
  ASSERT_TRUE(table.add("c", vector<Text16>(3)));
  EXPECT_EQ(table.group_by("b", "a").error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(table.group_by("a", "c").error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(table.summary("c").error(), ErrorCode::kInvalidArgument);
  vector<std::uint64_t> rows;
  rows.push_back(3);
  EXPECT_EQ(table.take(rows).error(), ErrorCode::kOutOfBounds);
}

TEST(Dataframe, SaysWhenASumHasNoRoom) {
  const auto heap = make_small_heap(Mode::kHybrid);
  vector<std::int64_t> large(2);
  large.set(0, std::numeric_limits<std::int64_t>::max());
  large.set(1, 1);
  dataframe table;
  ASSERT_TRUE(table.add("key", vector<std::int64_t>(2)));
  ASSERT_TRUE(table.add("value", std::move(large)));
  EXPECT_EQ(table.group_by("key", "value").error(), ErrorCode::kInvalidArgument);
}

TEST(Dataframe, PassesOverNaNs) {
  const auto heap = make_small_heap(Mode::kHybrid);
  vector<double> weights;
  for (const double weight : {2.0, std::nan(""), 1.0}) weights.push_back(weight);
  dataframe table;
  ASSERT_TRUE(table.add("weight", std::move(weights)));
  const auto summary = table.summary("weight");
  ASSERT_TRUE(summary);
  EXPECT_EQ(summary->min, 1.0);
  EXPECT_EQ(summary->max, 2.0);
  EXPECT_TRUE(std::isnan(summary->mean()));
  const auto sorted = table.sort_by("weight");
  ASSERT_TRUE(sorted);
  EXPECT_EQ((*sorted->column<double>("weight"))->get(0), 1.0);
  EXPECT_TRUE(std::isnan((*sorted->column<double>("weight"))->get(2)));
}

TEST(Dataframe, CutsTextsAtSixteenBytes) {
  EXPECT_EQ(Text16::of("0123456789abcdefg").view(), "0123456789abcdef");
  EXPECT_EQ(Text16::of("").view(), "");
}

}  // namespace
}  // namespace yonder::heap
