#include "yonder/heap/heap.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <span>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/heap/test_support.h"
#include "yonder/heap/unique_ptr.h"
#include "yonder/os/steady_clock.h"
#include "yonder/testing/sanitizer.h"
#include "yonder/testing/seed.h"

namespace yonder::heap {
namespace {

using Line = std::array<std::uint64_t, 8>;

Line line_of(std::uint64_t seed) {
  Line line;
  for (std::size_t i = 0; i < line.size(); ++i) line[i] = seed * 1000 + i;
  return line;
}

TEST(Heap, KeepsObjectsThatDoNotFitIntoLocalMemory) {
  for (const Mode mode : {Mode::kHybrid, Mode::kPaging, Mode::kObject}) {
    const auto heap = make_heap({.mode = mode});
    std::vector<unique_ptr<Line>> lines;
    // 64 pages hold 4096 of them.
    for (std::uint64_t i = 0; i < 40'000; ++i) lines.push_back(make_unique<Line>(line_of(i)));
    for (int round = 0; round < 3; ++round)
      for (std::uint64_t i = 0; i < lines.size(); ++i) ASSERT_EQ(*lines[i].read(), line_of(i)) << i;
    const HeapStats stats = heap->stats();
    EXPECT_GT(stats.page_ins + stats.object_ins + stats.read_ahead, 0u);
    // A scan in order may well need no object alone; but the other two have one way only.
    const std::uint64_t other_way = mode == Mode::kPaging ? stats.object_ins : stats.page_ins;
    EXPECT_TRUE(mode == Mode::kHybrid || other_way == 0) << other_way;
  }
}

// In any order, so that what is asked for early comes alone; some hints are never used, and some of
// the objects are gone before their bytes are here.
TEST(Heap, BringsObjectsThatWereAskedForEarly) {
  for (const Mode mode : {Mode::kHybrid, Mode::kObject}) {
    const auto heap = make_heap({.link = "model=rdma100g", .mode = mode});
    std::vector<unique_ptr<Line>> lines;
    for (std::uint64_t i = 0; i < 20'000; ++i) lines.push_back(make_unique<Line>(line_of(i)));
    Prng random(testing::test_seed());
    for (int step = 0; step < 3'000; ++step) {
      std::array<std::uint64_t, 12> wanted;
      for (std::uint64_t& i : wanted) lines[i = random.below(lines.size())].prefetch();
      lines[wanted[0]] = make_unique<Line>(line_of(wanted[0]));
      for (const std::uint64_t i : std::span(wanted).first(random.below(wanted.size())))
        ASSERT_EQ(*lines[i].read(), line_of(i));
    }
    const HeapStats stats = heap->stats();
    EXPECT_GT(stats.objects_ahead_used, 1'000u);
    EXPECT_GT(stats.objects_ahead, stats.objects_ahead_used);
  }
}

TEST(Heap, LetsAThreadEndWhoseHintsAreOnTheirWay) {
  const auto heap = make_heap({.link = "model=tcp10g", .mode = Mode::kObject});
  std::vector<unique_ptr<Line>> lines;
  for (std::uint64_t i = 0; i < 20'000; ++i) lines.push_back(make_unique<Line>(line_of(i)));
  for (std::size_t round = 0; round < 100; ++round) {
    std::thread([&] {
      for (std::size_t i = 0; i < 16; ++i) lines[(round * 16 + i) * 7].prefetch();
    }).join();
  }
  EXPECT_GT(heap->stats().objects_ahead, 1'000u);
  for (std::uint64_t i = 0; i < lines.size(); i += 7) ASSERT_EQ(*lines[i].read(), line_of(i));
}

TEST(Heap, KeepsWhatWasWrittenAfterObjectsHaveMoved) {
  for (const Mode mode : {Mode::kHybrid, Mode::kPaging, Mode::kObject}) {
    const auto heap = make_heap({.mode = mode});
    std::vector<unique_ptr<Line>> lines;
    std::vector<std::uint64_t> seeds;
    for (std::uint64_t i = 0; i < 20'000; ++i) {
      lines.push_back(make_unique<Line>(line_of(i)));
      seeds.push_back(i);
    }
    Prng random(testing::test_seed());
    for (int step = 0; step < 200'000; ++step) {
      const std::uint64_t i = random.below(lines.size());
      ASSERT_EQ(*lines[i].read(), line_of(seeds[i]));
      if (random.below(3) == 0) {
        seeds[i] = random.below(1'000'000);
        *lines[i].write() = line_of(seeds[i]);
      }
      if (random.below(20) == 0) {
        lines[i].reset();
        seeds[i] = random.below(1'000'000);
        lines[i] = make_unique<Line>(line_of(seeds[i]));
      }
    }
    lines.clear();
  }
}

struct Node {
  std::uint64_t value;
  unique_ptr<Node> next;
};

}  // namespace
}  // namespace yonder::heap

YONDER_FAR_TYPE(yonder::heap::Node, value, next);

namespace yonder::heap {
namespace {

TEST(Heap, HoldsListsWhoseLinksAreFar) {
  const auto heap = make_heap();
  unique_ptr<Node> head;
  constexpr std::uint64_t kLength = 30'000;
  for (std::uint64_t i = 0; i < kLength; ++i) head = make_unique<Node>(i, std::move(head));
  for (int round = 0; round < 4; ++round) {
    std::uint64_t expected = kLength;
    ReadGuard<Node> node = head.read();
    for (;;) {
      ASSERT_EQ(node->value, --expected);
      if (!node->next) break;
      node = node->next.read();
    }
    ASSERT_EQ(expected, 0u);
  }
  // Not by recursion.
  while (head) head = std::move(head.write()->next);
}

TEST(Heap, SurvivesAConstructorThatThrows) {
  const auto heap = make_heap();
  EXPECT_THROW((void)make_unique<Thrower>(true), std::runtime_error);
  EXPECT_EQ(make_unique<Thrower>(false).read()->value, 3u);
}

// Its room is free again: these would have filled the heap several times.
TEST(Heap, LosesNoRoomToConstructorsThatThrow) {
  constexpr std::size_t kFarBytes = 1 << 20;
  const auto heap = make_heap({.far = Bytes(kFarBytes)});
  const auto kept = make_unique<Line>(line_of(7));
  for (std::size_t i = 0; i < 3 * kFarBytes / sizeof(Thrower); ++i)
    ASSERT_THROW((void)make_unique<Thrower>(true), std::runtime_error) << i;
  // Empty pages are given back in batches.
  EXPECT_LE(heap->stats().live_pages, kFarBytes / kPageBytes / 2);
  EXPECT_TRUE(try_make_unique<Line>(line_of(8)));
  EXPECT_EQ(*kept.read(), line_of(7));
}

// And reading what is there goes on: nothing needs another page for that.
TEST(Heap, SaysWhenFarMemoryIsFull) {
  for (const Mode mode : {Mode::kHybrid, Mode::kPaging, Mode::kObject}) {
    const auto heap = make_heap({.local = Bytes(64 * kPageBytes), .far = Bytes(1 << 20), .mode = mode});
    std::vector<unique_ptr<Line>> lines;
    for (;;) {
      auto line = try_make_unique<Line>(line_of(lines.size()));
      if (!line) {
        EXPECT_EQ(line.error(), ErrorCode::kOutOfMemory);
        break;
      }
      lines.push_back(std::move(*line));
      ASSERT_LE(lines.size(), (1u << 20) / sizeof(Line));
    }
    EXPECT_GT(lines.size(), 13'000u);
    Prng random(testing::test_seed());
    for (int step = 0; step < 50'000; ++step) {
      const std::uint64_t i = random.below(lines.size());
      ASSERT_EQ(*lines[i].read(), line_of(i));
    }
    lines.clear();
    for (int i = 0; i < 10'000; ++i) lines.push_back(make_unique<Line>(line_of(1)));
  }
}

TEST(Heap, SaysWhenAllLocalMemoryIsHeld) {
  const auto heap = make_heap({.timeout = std::chrono::milliseconds(200)});
  std::vector<unique_ptr<std::array<std::byte, 4096>>> pages;
  for (int i = 0; i < 100; ++i) pages.push_back(make_unique<std::array<std::byte, 4096>>());
  std::vector<ReadGuard<std::array<std::byte, 4096>>> held;
  for (const auto& page : pages) {
    auto guard = page.try_read();
    if (!guard) {
      EXPECT_EQ(guard.error(), ErrorCode::kOutOfMemory);
      break;
    }
    held.push_back(std::move(*guard));
  }
  EXPECT_GT(held.size(), 55u);
  EXPECT_LT(held.size(), 65u);
  held.clear();
  for (const auto& page : pages) EXPECT_TRUE(page.try_read());
}

TEST(Heap, PinsMemoryForSystemCallsAndOtherThreads) {
  const auto heap = make_heap();
  const auto buffer = make_unique<std::array<char, 1024>>();
  auto pinned = buffer.pin();
  ASSERT_TRUE(pinned);
  char* const address = (*pinned)->data();
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  ASSERT_EQ(::write(pipe[1], "far away", 8), 8);
  ASSERT_EQ(::read(pipe[0], address, 8), 8);
  // Everything else leaves; this stays where it is.
  std::vector<unique_ptr<Line>> lines;
  for (std::uint64_t i = 0; i < 20'000; ++i) lines.push_back(make_unique<Line>(line_of(i)));
  EXPECT_EQ((*pinned)->data(), address);
  EXPECT_EQ(std::string_view(address, 8), "far away");
  std::jthread([guard = std::move(*pinned)]() mutable { guard.reset(); }).join();
  for (std::uint64_t i = 0; i < 20'000; ++i) ASSERT_EQ(*lines[i].read(), line_of(i));
  EXPECT_TRUE(buffer.prefault());
  EXPECT_EQ(std::string_view(buffer.read()->data(), 8), "far away");
  ::close(pipe[0]);
  ::close(pipe[1]);
}

TEST(Heap, ChangesItsBudgetWhileObjectsAreInUse) {
  const auto heap = make_heap({.local = Bytes(1024 * kPageBytes), .max_local = Bytes(2048 * kPageBytes)});
  std::vector<unique_ptr<Line>> lines;
  for (std::uint64_t i = 0; i < 100'000; ++i) lines.push_back(make_unique<Line>(line_of(i)));
  for (const std::uint64_t pages : {100, 2000, 64, 1024}) {
    ASSERT_TRUE(heap->set_local(Bytes(pages * kPageBytes)));
    EXPECT_EQ(heap->local(), Bytes(pages * kPageBytes));
    for (std::uint64_t i = 0; i < lines.size(); ++i) ASSERT_EQ(*lines[i].read(), line_of(i));
  }
  EXPECT_FALSE(heap->set_local(Bytes(10 * kPageBytes)));
  EXPECT_FALSE(heap->set_local(Bytes(4096 * kPageBytes)));
}

TEST(Heap, EvacuatesGarbageAndHealsPointers) {
  const auto heap = make_heap({.local = Bytes(4096 * kPageBytes), .evacuate = false});
  std::vector<unique_ptr<Line>> lines;
  for (std::uint64_t i = 0; i < 64'000; ++i) lines.push_back(make_unique<Line>(line_of(i)));
  const std::uint64_t before = heap->stats().live_pages;
  for (std::size_t i = 0; i < lines.size(); ++i)
    if (i % 4 != 0) lines[i].reset();
  EXPECT_GT(heap->evacuate(), 900u);
  EXPECT_LT(heap->stats().live_pages, before / 3);
  for (std::size_t i = 0; i < lines.size(); i += 4) ASSERT_EQ(*lines[i].read(), line_of(i));
  EXPECT_GT(heap->stats().healed, 10'000u);
}

// The background's turn: garbage stays where it is until something needs its room.
TEST(Heap, LeavesGarbageAloneUntilItIsInTheWay) {
  constexpr std::uint64_t kPages = 4096;
  constexpr std::uint64_t kLinesPerPage = kPageBytes / sizeof(Line);
  const auto heap = make_heap({.local = Bytes(kPages * kPageBytes), .far = Bytes(2 * kPages * kPageBytes)});
  std::vector<unique_ptr<Line>> lines;
  const auto add_and_thin_out = [&](std::uint64_t pages) {
    const std::size_t begin = lines.size();
    while (lines.size() < begin + pages * kLinesPerPage)
      lines.push_back(make_unique<Line>(line_of(lines.size())));
    for (std::size_t i = begin; i < lines.size(); ++i)
      if (i % 4 != 0) lines[i].reset();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // Several of the background's turns.
  };
  add_and_thin_out(kPages / 2);
  EXPECT_EQ(heap->stats().evacuated_pages, 0u);
  const Deadline deadline = Deadline::at(os::SteadyClock::read() + std::chrono::seconds(20));
  add_and_thin_out(kPages / 2 - kPages / 16);
  while (heap->stats().evacuated_pages == 0 && !deadline.passed(os::SteadyClock::read())) add_and_thin_out(1);
  EXPECT_GT(heap->stats().evacuated_pages, 0u);
  for (std::size_t i = 0; i < lines.size(); i += 4) ASSERT_EQ(*lines[i].read(), line_of(i));
}

// Objects that come in alone leave holes behind; far memory of three times the data must do for ever.
TEST(Heap, TakesGarbageOutOfPagesThatAreFarAway) {
  for (const Mode mode : {Mode::kHybrid, Mode::kObject}) {
    constexpr std::uint64_t kLines = 60'000;
    const auto heap =
        make_heap({.local = Bytes(96 * kPageBytes), .far = Bytes(3 * kLines * sizeof(Line)), .mode = mode});
    std::vector<unique_ptr<Line>> lines;
    for (std::uint64_t i = 0; i < kLines; ++i) lines.push_back(make_unique<Line>(line_of(i)));
    Prng random(testing::test_seed());
    const int steps = testing::scaled(400'000);
    for (int step = 0; step < steps; ++step) {
      const std::uint64_t i = random.below(kLines);
      if (random.below(4) == 0) {
        lines[i].reset();
        auto made = try_make_unique<Line>(line_of(i));
        ASSERT_TRUE(made) << made.error().to_string() << " after " << step;
        lines[i] = std::move(*made);
      }
      ASSERT_EQ(*lines[i].read(), line_of(i));
    }
    for (std::uint64_t i = 0; i < kLines; ++i) ASSERT_EQ(*lines[i].read(), line_of(i));
  }
}

TEST(Heap, RefusesASecondOneAndNonsense) {
  const auto heap = make_heap();
  const auto second = Heap::create({});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error(), ErrorCode::kAlreadyExists);
}

TEST(Heap, RefusesNonsense) {
  EXPECT_FALSE(Heap::create({.local = Bytes(4096)}));
  EXPECT_FALSE(Heap::create({.local = Bytes(1 << 30), .far = Bytes(1 << 20)}));
  EXPECT_FALSE(Heap::create({.page_above = 0.5, .object_below = 0.7}));
}

}  // namespace
}  // namespace yonder::heap
