// Threads that allocate, hand objects to each other, free them, come and go.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/heap/paged_arena.h"
#include "yonder/testing/effort.h"
#include "yonder/testing/sanitizer.h"
#include "yonder/testing/seed.h"

extern "C" const char* __tsan_default_options() { return "report_signal_unsafe=0"; }  // NOLINT

namespace yonder::heap {
namespace {

constexpr std::size_t kPages = 16'384;

struct Object {
  std::size_t bytes;
  std::uint64_t number;
};

TEST(PagedArenaStress, LetsThreadsFreeWhatOthersMade) {
  const auto space =
      PagedSpace::create({.bytes = Bytes(kPages * kPageBytes), .budget = Bytes(800 * kPageBytes)},
                         SlotStore::open({.bytes = Bytes(kPages * kPageBytes)}).value())
          .value();
  const auto arena = PagedArena::create(*space).value();
  std::array<std::atomic<Object*>, 512> exchange{};
  const auto check_and_free = [&](Object* object) {
    const auto* tail = reinterpret_cast<const std::byte*>(object) + object->bytes - 1;
    ASSERT_EQ(*tail, static_cast<std::byte>(object->number));
    arena->free(object);
  };
  const auto work = [&](std::uint64_t seed) {
    Prng prng(seed);
    for (std::uint64_t i = 0; i < testing::scaled<std::uint64_t>(4'000); ++i) {
      const std::size_t bytes = sizeof(Object) + 1 + prng.below(prng.below(16) == 0 ? 60'000 : 900);
      auto* made = static_cast<Object*>(arena->allocate(bytes));
      ASSERT_NE(made, nullptr);
      *made = {.bytes = bytes, .number = prng()};
      reinterpret_cast<std::byte*>(made)[bytes - 1] = static_cast<std::byte>(made->number);
      if (Object* other = exchange[prng.below(exchange.size())].exchange(made); other != nullptr)
        check_and_free(other);
    }
  };
  for (std::uint64_t round = 0; round < 4 * testing::test_effort(); ++round) {
    std::vector<std::jthread> threads;
    for (std::uint64_t t = 0; t < 4; ++t) threads.emplace_back(work, testing::test_seed() + round * 4 + t);
  }
  for (auto& place : exchange) {
    if (Object* object = place.load(); object != nullptr) check_and_free(object);
  }
  arena->forget_thread();
  // All threads have given back what they kept: no more than an empty span per class is left.
  EXPECT_GE(arena->free_pages(), kPages - 72 * 64);
}

TEST(PagedArenaStress, OutlivesAThousandThreads) {
  const auto space =
      PagedSpace::create({.bytes = Bytes(kPages * kPageBytes), .budget = Bytes(800 * kPageBytes)},
                         SlotStore::open({.bytes = Bytes(kPages * kPageBytes)}).value())
          .value();
  const auto arena = PagedArena::create(*space).value();
  for (int round = 0; round < testing::scaled(100); ++round) {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 10; ++t) {
      threads.emplace_back([&] {
        for (std::size_t bytes = 16; bytes < 100'000; bytes *= 3) {
          auto* object = static_cast<std::byte*>(arena->allocate(bytes));
          ASSERT_NE(object, nullptr);
          object[bytes - 1] = std::byte{1};
          arena->free(object);
        }
      });
    }
  }
  EXPECT_GE(arena->free_pages(), kPages - 72 * 64);
}

}  // namespace
}  // namespace yonder::heap
