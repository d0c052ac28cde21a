// Containers in segments of one process: what they are made of, and what is refused.

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "yonder/base/prng.h"
#include "yonder/fabric/shm/shm.h"
#include "yonder/os/process.h"
#include "yonder/os/steady_clock.h"
#include "yonder/segment/local_directory.h"
#include "yonder/segment/migratable.h"
#include "yonder/testing/sanitizer.h"
#include "yonder/testing/seed.h"

namespace yonder::segment {
namespace {

struct Point {
  double x;
  double y;
};
struct Bad {
  int number;
  const char* text;
};
struct Nested {
  Point point;
  std::array<std::uint8_t, 4> bytes;
};

static_assert(can_migrate<int> && can_migrate<Point> && can_migrate<Nested>);
static_assert(can_migrate<string> && can_migrate<vector<string>>);
static_assert(can_migrate<unordered_map<std::uint64_t, map<string, vector<Point>>>>);
static_assert(!can_migrate<int*> && !can_migrate<Bad> && !can_migrate<std::string>);
static_assert(!can_migrate<vector<int*>> && !can_migrate<std::vector<int>>);
static_assert(!can_migrate<std::unique_ptr<int>> && !can_migrate<std::string_view>);
static_assert(!can_migrate<unordered_map<int, std::string>>);

class ContainerTest : public ::testing::Test {
 protected:
  const os::SteadyClock clock_;
  std::unique_ptr<fabric::Fabric> fabric_ = fabric::shm::open({}).value();
  std::unique_ptr<Arena> arena_ = Arena::reserve({}).value();
  LocalDirectory directory_{clock_, {.slots = 16}};
  std::unique_ptr<Agent> agent_ = Agent::create(*fabric_, *arena_, directory_, {}).value();
};

TEST_F(ContainerTest, KeepEverythingInTheSegment) {
  using Map = unordered_map<std::uint64_t, vector<string>>;
  auto box = Migratable<Map>::create(*agent_, 4_MiB).value();
  for (std::uint64_t i = 0; i < 1000; ++i)
    (*box)[i].emplace_back("a text that is too long to be kept inside the string itself " +
                           std::to_string(i));
  for (const auto& [key, texts] : *box) {
    ASSERT_EQ(texts.size(), 1u);
    for (const void* p : {static_cast<const void*>(&texts), static_cast<const void*>(texts[0].data())}) {
      const auto address = reinterpret_cast<std::uintptr_t>(p);
      ASSERT_GE(address, arena_->base());
      ASSERT_LT(address, arena_->base() + kSlotBytes);
    }
  }
}

TEST_F(ContainerTest, ThrowBadAllocWhenTheSegmentIsFullAndGoOn) {
  auto box = Migratable<vector<std::uint64_t>>::create(*agent_, 64_KiB).value();
  EXPECT_THROW(box->resize(1'000'000), std::bad_alloc);
  box->resize(1000);
  EXPECT_EQ(box->size(), 1000u);
}

TEST_F(ContainerTest, AreFoundAgainByTheirTypeOnly) {
  const Segment segment = agent_->allocate(1_MiB).value();
  EXPECT_EQ(Migratable<vector<int>>::adopt(*agent_, segment).error(), ErrorCode::kCorrupt);
  ASSERT_TRUE(agent_->deallocate(segment.id));
  auto box = Migratable<vector<int>>::create(*agent_, 1_MiB).value();
  box->push_back(3);
  const Segment same{.id = box.id(), .memory = {reinterpret_cast<std::byte*>(arena_->base()), 1 << 20}};
  EXPECT_EQ(Migratable<vector<long>>::adopt(*agent_, same).error(), ErrorCode::kCorrupt);
}

TEST_F(ContainerTest, BehaveAsTheirTwinsWhileMemoryIsReused) {
  Prng prng(testing::test_seed());
  auto box = Migratable<map<std::uint64_t, string>>::create(*agent_, 256_KiB).value();
  std::map<std::uint64_t, std::string> twin;
  // Far more than fits is allocated in all: what is erased must be usable again.
  for (int step = 0; step < testing::scaled(40'000); ++step) {
    const std::uint64_t key = prng.below(500);
    if (prng.below(2) == 0) {
      const std::string text(prng.below(200), static_cast<char>('a' + prng.below(26)));
      (*box)[key] = text;
      twin[key] = text;
    } else {
      ASSERT_EQ(box->erase(key), twin.erase(key));
    }
  }
  ASSERT_EQ(box->size(), twin.size());
  for (const auto& [key, text] : twin) ASSERT_EQ(std::string_view(box->at(key)), text);
}

TEST_F(ContainerTest, GiveTheirAddressesBack) {
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(Migratable<vector<int>>::create(*agent_, 1_GiB)) << i;
}

TEST_F(ContainerTest, SegmentsOfImpossibleSizesAreRefused) {
  EXPECT_EQ(agent_->allocate(Bytes(0)).error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(agent_->allocate(Bytes(1000)).error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(agent_->allocate(65_GiB).error(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(agent_->allocate(20_GiB).error(), ErrorCode::kResourceExhausted);
}

// The forms for coroutines do the same on another thread; the scheduler's goes on meanwhile.
TEST_F(ContainerTest, CoroutinesWaitWithoutBlockingTheirThread) {
  const std::unique_ptr<fabric::CompletionQueue> queue = fabric_->create_completion_queue({}).value();
  fabric::Scheduler scheduler(*queue);
  const Segment segment = agent_->allocate(1_MiB).value();
  EXPECT_EQ(scheduler.block_on(agent_->async_connect(scheduler, segment.id, ProcessId(99))).error(),
            ErrorCode::kNotFound);
  EXPECT_EQ(scheduler.block_on(agent_->async_transfer(scheduler, segment.id)).error(), ErrorCode::kNotFound);
  EXPECT_TRUE(scheduler.block_on(agent_->async_pull(scheduler, segment.id, {0, 4096})));
  EXPECT_TRUE(scheduler.block_on(agent_->async_close(scheduler, segment.id)));
  int ticks = 0;
  const auto count = [&]() -> fabric::Task<void> {
    for (; ticks < 5; ++ticks) co_await scheduler.sleep_for(std::chrono::milliseconds(1));
  };
  scheduler.spawn(count());
  const Deadline soon = Deadline::after(clock_, std::chrono::milliseconds(100));
  EXPECT_EQ(scheduler.block_on(agent_->async_receive(scheduler, soon)).error(), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(ticks, 5);
}

TEST_F(ContainerTest, SegmentsAreNotForChildren) {
  const Segment segment = agent_->allocate(1_MiB).value();
  segment.memory[0] = std::byte{7};
  // Only what may be done in a copy of a process that has threads.
  auto child = os::Child::fork([&] { return std::to_integer<int>(segment.memory[0]); }).value();
  const os::ExitStatus status = child.wait(Deadline::after(clock_, std::chrono::seconds(20))).value();
  EXPECT_FALSE(status.success());
  EXPECT_NE(status.value, 7);
  EXPECT_EQ(segment.memory[0], std::byte{7});
}

TEST_F(ContainerTest, OneArenaPerProcess) {
  EXPECT_EQ(Arena::reserve({.base = arena_->base() + arena_->slots() * kSlotBytes, .slots = 1}).error(),
            ErrorCode::kAlreadyExists);
}

}  // namespace
}  // namespace yonder::segment
