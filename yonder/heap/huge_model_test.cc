// Huge arrays against vectors, with local memory for five percent of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/heap/heap.h"
#include "yonder/heap/huge.h"
#include "yonder/heap/test_support.h"
#include "yonder/testing/sanitizer.h"
#include "yonder/testing/seed.h"

// A fault is a synchronous signal: what its handler does is as safe as a call would be.
extern "C" const char* __tsan_default_options() { return "report_signal_unsafe=0"; }  // NOLINT

namespace yonder::heap {
namespace {

using Words = std::vector<std::uint32_t>;

struct Twin {
  huge_array<std::uint32_t> far;
  Words near;
};

class Model {
 public:
  explicit Model(std::uint64_t seed) : random_(seed) {}

  void step() {
    Twin& twin = twins_[random_.below(std::size(twins_))];
    switch (random_.below(10)) {
      case 0:
        make(twin);
        break;
      case 1:
        twin.far.reset();
        twin.near.clear();
        break;
      case 2:
        std::swap(twin, twins_[random_.below(std::size(twins_))]);
        break;
      case 3:
        fill(twin);
        break;
      case 4:
        copy(twin, twins_[random_.below(std::size(twins_))]);
        break;
      case 5:
        ASSERT_TRUE(std::ranges::equal(twin.far.span(), twin.near));
        break;
      default:
        touch(twin);
    }
  }
  void check_all() {
    for (const Twin& twin : twins_) ASSERT_TRUE(std::ranges::equal(twin.far.span(), twin.near));
  }
  bool has_been_full() const { return has_been_full_; }

 private:
  static constexpr std::size_t kMaxWords = 300 * 1024;  // 300 pages; twelve of them are 3,600.

  void make(Twin& twin) {
    const std::size_t words = 1 + random_.below(kMaxWords);
    twin.far.reset();
    twin.near.clear();
    Result<huge_array<std::uint32_t>> made = try_make_huge<std::uint32_t[]>(words);
    if (!made) {
      ASSERT_EQ(made.error(), ErrorCode::kOutOfMemory);
      has_been_full_ = true;
      return;
    }
    twin.far = std::move(*made);
    twin.near.resize(words);
  }
  void fill(Twin& twin) {
    const auto [first, count] = part_of(twin.near.size());
    const auto value = static_cast<std::uint32_t>(random_());
    std::ranges::fill(twin.far.span().subspan(first, count), value);
    std::fill_n(twin.near.begin() + static_cast<std::ptrdiff_t>(first), count, value);
  }
  // From one to the other: source and target may both be far away.
  void copy(Twin& to, const Twin& from) {
    const std::size_t count = std::min(to.near.size(), from.near.size());
    if (&to == &from) return;
    std::copy_n(from.far.begin(), count, to.far.begin());
    std::copy_n(from.near.begin(), count, to.near.begin());
  }
  void touch(Twin& twin) {
    if (twin.near.empty()) return;
    for (int i = 0; i < 50; ++i) {
      const std::size_t at = random_.below(twin.near.size());
      ASSERT_EQ(twin.far[at], twin.near[at]);
      if (random_.below(2) == 0) twin.far[at] = twin.near[at] = static_cast<std::uint32_t>(random_());
    }
  }
  std::pair<std::size_t, std::size_t> part_of(std::size_t size) {
    if (size == 0) return {0, 0};
    const std::size_t first = random_.below(size);
    return {first, random_.below(size - first) + 1};
  }

  Prng random_;
  bool has_been_full_ = false;
  Twin twins_[12];
};

TEST(HugeModel, ArraysAreVectors) {
  const auto heap = make_huge_heap();
  Model model(testing::test_seed());
  const int steps = testing::scaled(2000);
  for (int i = 0; i < steps && !::testing::Test::HasFatalFailure(); ++i) model.step();
  model.check_all();
  const PagedSpaceStats stats = heap->huge_stats();
  EXPECT_LE(stats.resident_bytes, kSmallHeapBytes);
  EXPECT_GT(stats.left_pages, kMuchDataBytes / kPageBytes);
  EXPECT_TRUE(testing::kSanitized || model.has_been_full());
}

}  // namespace
}  // namespace yonder::heap
