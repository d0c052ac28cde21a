// Random allocation against a naive twin that knows what every object must contain.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/heap/paged_arena.h"
#include "yonder/testing/effort.h"
#include "yonder/testing/sanitizer.h"
#include "yonder/testing/seed.h"

extern "C" const char* __tsan_default_options() { return "report_signal_unsafe=0"; }  // NOLINT

namespace yonder::heap {
namespace {

constexpr std::size_t kPages = 8192;

struct Bed {
  std::unique_ptr<PagedSpace> space =
      PagedSpace::create({.bytes = Bytes(kPages * kPageBytes), .budget = Bytes(512 * kPageBytes)},
                         SlotStore::open({.bytes = Bytes(kPages * kPageBytes)}).value())
          .value();
  std::unique_ptr<PagedArena> arena = PagedArena::create(*space).value();
};

class Model {
 public:
  Model(PagedArena& arena, std::uint64_t seed) : arena_(arena), prng_(seed) {}

  void step() {
    const std::uint64_t dice = prng_.below(10);
    if (objects_.empty() || dice < 4) return make();
    const std::size_t index = prng_.below(objects_.size());
    if (dice < 7) return remove(index);
    if (dice < 9) return resize(index);
    verify(objects_[index]);
  }
  void finish() {
    while (!objects_.empty()) remove(objects_.size() - 1);
  }

 private:
  struct Object {
    std::byte* data;
    std::size_t bytes;
    std::byte fill;
  };

  std::size_t some_size() {
    switch (prng_.below(20)) {
      case 0:
        return 32 * 1024 + prng_.below(200'000);
      case 1:
      case 2:
        return 1 + prng_.below(40'000);
      default:
        return 1 + prng_.below(700);
    }
  }
  // No two objects share a byte.
  void insert(Object object) {
    const auto start = reinterpret_cast<std::uintptr_t>(object.data);
    const auto after = places_.lower_bound(start);
    if (after != places_.end()) {
      ASSERT_LE(start + object.bytes, after->first);
    }
    if (after != places_.begin()) {
      ASSERT_LE(std::prev(after)->first + std::prev(after)->second, start);
    }
    places_[start] = object.bytes;
    std::memset(object.data, static_cast<int>(object.fill), object.bytes);
    objects_.push_back(object);
  }
  void make() {
    const std::size_t bytes = some_size();
    const std::uint64_t kind = prng_.below(6);
    const std::size_t alignment = kind == 0 ? std::size_t{16} << prng_.below(10) : 16;
    void* data = kind == 1 ? arena_.allocate_zeroed(bytes) : arena_.allocate(bytes, alignment);
    if (data == nullptr) return finish();  // Full: start over.
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(data) % alignment, 0u);
    ASSERT_GE(arena_.usable_bytes(data), bytes);
    auto* first = static_cast<std::byte*>(data);
    if (kind == 1) {
      ASSERT_TRUE(std::all_of(first, first + bytes, [](std::byte b) { return b == std::byte{0}; }));
    }
    insert({.data = first, .bytes = bytes, .fill = static_cast<std::byte>(prng_() | 1)});
  }
  void verify(const Object& object, std::size_t bytes = SIZE_MAX) {
    for (std::size_t i = 0; i < std::min(bytes, object.bytes); ++i)
      ASSERT_EQ(object.data[i], object.fill) << i;
  }
  void forget(std::size_t index) {
    places_.erase(reinterpret_cast<std::uintptr_t>(objects_[index].data));
    objects_[index] = objects_.back();
    objects_.pop_back();
  }
  void remove(std::size_t index) {
    verify(objects_[index]);
    arena_.free(objects_[index].data);
    forget(index);
  }
  void resize(std::size_t index) {
    const Object before = objects_[index];
    const std::size_t bytes = some_size();
    void* moved = arena_.reallocate(before.data, bytes);
    if (moved == nullptr) return verify(before);
    forget(index);
    verify({.data = static_cast<std::byte*>(moved), .bytes = before.bytes, .fill = before.fill}, bytes);
    insert({.data = static_cast<std::byte*>(moved),
            .bytes = bytes,
            .fill = static_cast<std::byte>(prng_() | 1)});
  }

  PagedArena& arena_;
  Prng prng_;
  std::vector<Object> objects_;
  std::map<std::uintptr_t, std::size_t> places_;
};

TEST(PagedArenaModel, KeepsObjectsApartAndWhole) {
  const Bed bed;
  Model model(*bed.arena, testing::test_seed());
  const std::uint64_t steps = testing::scaled<std::uint64_t>(30'000) * testing::test_effort();
  for (std::uint64_t i = 0; i < steps && !::testing::Test::HasFatalFailure(); ++i) model.step();
  model.finish();
  bed.arena->forget_thread();
  // One empty span per class may be kept.
  EXPECT_GE(bed.arena->free_pages(), kPages - 72 * 64);
}

TEST(PagedArena, SaysWhenItIsFull) {
  const Bed bed;
  EXPECT_EQ(bed.arena->allocate((kPages + 1) * kPageBytes), nullptr);
  void* most = bed.arena->allocate((kPages - 10) * kPageBytes);
  ASSERT_NE(most, nullptr);
  EXPECT_EQ(bed.arena->allocate(11 * kPageBytes), nullptr);
  bed.arena->free(most);
  EXPECT_EQ(bed.arena->free_pages(), kPages);
}

TEST(PagedArena, GrowsInPlaceWhereThePagesAfterAreFree) {
  const Bed bed;
  void* object = bed.arena->allocate(100'000);
  EXPECT_EQ(bed.arena->reallocate(object, 4'000'000), object);
  EXPECT_EQ(bed.arena->reallocate(object, 50'000), object);
  EXPECT_EQ(bed.arena->usable_bytes(object), 13 * kPageBytes);
  bed.arena->free(object);
}

TEST(PagedArena, MapsWholePages) {
  const Bed bed;
  const std::span<std::byte> mapped = bed.arena->map(100);
  ASSERT_EQ(mapped.size(), 100 * kPageBytes);
  mapped[5] = std::byte{1};
  EXPECT_TRUE(bed.arena->extend(mapped, 10));
  bed.arena->unmap(mapped.first(50 * kPageBytes));
  bed.arena->unmap({mapped.data() + 50 * kPageBytes, 60 * kPageBytes});
  EXPECT_EQ(bed.arena->free_pages(), kPages);
  EXPECT_EQ(bed.arena->map(100)[5], std::byte{0});
  EXPECT_TRUE(bed.arena->map(kPages).empty());
}

TEST(PagedArenaDeathTest, NoticesAnObjectThatIsFreedTwice) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_DEATH(
      {
        const Bed bed;
        void* object = bed.arena->allocate(100);
        bed.arena->free(object);
        bed.arena->free(object);
        bed.arena->forget_thread();
      },
      "freed once");
}

}  // namespace
}  // namespace yonder::heap
