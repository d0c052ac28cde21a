// What the system may refuse while blocks are remapped: a mapping for a new block, the
// switch of one that has moved. Typed errors, nothing lost, and it goes on afterwards.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <optional>
#include <vector>

#include "yonder/node/block_views.h"
#include "yonder/node/heap.h"
#include "yonder/os/steady_clock.h"
#include "yonder/testing/pattern.h"
#include "yonder/testing/sanitizer.h"
#include "yonder/testing/seed.h"

namespace yonder::node {
namespace {

using ::yonder::testing::number_in;
using ::yonder::testing::pattern;

const os::SteadyClock kClock;
constexpr std::uint32_t kBytes = 100;

// Lets so many switches happen, and refuses the others until told otherwise.
class Gatekeeper final : public ViewObserver {
 public:
  Result<void> placed(const BlockView&) override {
    if (!refuses_new) return {};
    return fail(ErrorCode::kOutOfMemory, "registration that the test refuses");
  }
  Result<void> moved(const BlockView&) override {
    if (allowed > 0) {
      --allowed;
      return {};
    }
    ++refused;
    return fail(ErrorCode::kOutOfMemory, "registration that the test refuses");
  }
  void removed(BlockId) override {}

  bool refuses_new = false;
  std::uint32_t allowed = 0;
  std::uint32_t refused = 0;
};

class RefusedSwitch : public ::testing::Test {
 protected:
  // One object in eight stays of what filled a hundred frames.
  void fill() {
    std::vector<ObjectPtr> all;
    for (std::uint64_t i = 0; i < 100 * 36; ++i) all.push_back(thread_.alloc(kBytes).value());
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i % 8 != 0) {
        ASSERT_TRUE(thread_.free(all[i]));
        continue;
      }
      ASSERT_TRUE(thread_.write(all[i], pattern(kBytes, all[i].id().value())));
      objects_.push_back(all[i]);
    }
  }
  void expect_all_there() {
    std::vector<std::byte> out(kBytes);
    for (ObjectPtr object : objects_) {
      ASSERT_TRUE(thread_.read(object, out));
      ASSERT_EQ(number_in(out), object.id().value());
      ASSERT_TRUE(thread_.write(object, out)) << "it can be written where it is";
    }
    heap_->check_invariants();
  }
  std::uint8_t size_class() const { return objects_.front().size_class(); }
  std::uint64_t compact() { return heap_->compactor().compact(size_class()); }

  Gatekeeper gate_;
  std::unique_ptr<Heap> heap_ = Heap::create(kClock, {.classes = {.frame_bytes = 4096},
                                                      .remap = Remap::kMmap,
                                                      .view_observer = &gate_,
                                                      .seed = ::yonder::testing::test_seed() | 1})
                                    .value();
  HeapThread thread_ = heap_->register_thread().value();
  std::vector<ObjectPtr> objects_;
};

TEST_F(RefusedSwitch, EndsTheRunAndLosesNothing) {
  fill();
  gate_.allowed = 5;
  const std::uint64_t freed = compact();
  EXPECT_EQ(heap_->compactor().counters().blocks_moved, 5u);
  EXPECT_GE(heap_->compactor().counters().switches_refused, 1u);
  EXPECT_GT(freed, 0u) << "what had left its frame by then";
  expect_all_there();
  EXPECT_EQ(compact(), 0u) << "the class waits for the switch";
  expect_all_there();
}

TEST_F(RefusedSwitch, IsMadeByTheNextRunThatCan) {
  fill();
  gate_.allowed = 3;
  (void)compact();
  expect_all_there();
  gate_.allowed = UINT32_MAX;
  EXPECT_GT(compact(), 0u);
  const std::uint64_t slots = heap_->classes()[size_class()].slots;
  EXPECT_LE(heap_->stats().classes[size_class()].frames, 2 * (objects_.size() / slots + 1));
  expect_all_there();
}

TEST_F(RefusedSwitch, LeavesItsObjectsToBeFreed) {
  fill();
  (void)compact();  // The very first is refused.
  for (const ObjectPtr object : objects_) ASSERT_TRUE(thread_.free(object));
  heap_->check_invariants();
  gate_.allowed = UINT32_MAX;
  (void)compact();
  heap_->check_invariants();
  EXPECT_EQ(heap_->stats().classes[size_class()].live, 0u);
}

TEST_F(RefusedSwitch, DoesNotKeepARunFromBeingStopped) {
  fill();
  gate_.allowed = 2;
  Compactor& compactor = heap_->compactor();
  while (gate_.refused == 0) (void)compactor.slice(size_class(), {.blocks = 1});
  (void)compactor.stop(size_class());
  expect_all_there();
}

TEST_F(RefusedSwitch, ARefusedBlockIsARefusedAllocation) {
  gate_.refuses_new = true;
  const auto object = thread_.alloc(kBytes);
  ASSERT_FALSE(object);
  EXPECT_EQ(object.error(), ErrorCode::kOutOfMemory);
  heap_->check_invariants();
  gate_.refuses_new = false;
  EXPECT_TRUE(thread_.alloc(kBytes));
}

// The kernel says no, as it does at vm.max_map_count: a process beyond its limit of
// addresses may map nothing, not even in place of something else.
class NoMoreAddresses {
 public:
  NoMoreAddresses() {
    ::getrlimit(RLIMIT_AS, &before_);
    const rlimit none{.rlim_cur = 1 << 20, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_AS, &none);
  }
  ~NoMoreAddresses() { ::setrlimit(RLIMIT_AS, &before_); }
  NoMoreAddresses(const NoMoreAddresses&) = delete;
  NoMoreAddresses& operator=(const NoMoreAddresses&) = delete;

 private:
  rlimit before_{};
};

TEST_F(RefusedSwitch, ByTheKernelIsNoneTheLess) {
  if (::yonder::testing::kSanitized) GTEST_SKIP() << "a sanitizer maps memory as it goes";
  fill();
  gate_.allowed = UINT32_MAX;
  Compactor& compactor = heap_->compactor();
  // Planned, and one block moved: what follows needs no memory of its own.
  while (compactor.counters().blocks_moved == 0) {
    ASSERT_EQ(compactor.slice(size_class(), {.blocks = 1}), SliceOutcome::kMore);
  }
  std::optional<NoMoreAddresses> limit(std::in_place);
  (void)compactor.slice(size_class(), {.blocks = 1});
  limit.reset();
  EXPECT_EQ(compactor.counters().switches_refused, 1u);
  expect_all_there();
  EXPECT_GT(compact(), 0u);
  expect_all_there();
}

TEST(BlockViewLimit, IsAClearError) {
  const auto heap =
      Heap::create(kClock, {.classes = {.frame_bytes = 4096}, .remap = Remap::kMmap, .max_views = 4}).value();
  HeapThread thread = heap->register_thread().value();
  std::vector<ObjectPtr> objects;
  for (;;) {
    const auto object = thread.alloc(3000);
    if (!object) {
      EXPECT_EQ(object.error(), ErrorCode::kResourceExhausted);
      break;
    }
    objects.push_back(*object);
    ASSERT_LE(objects.size(), 4u);
  }
  EXPECT_EQ(objects.size(), 4u);
  heap->check_invariants();
}

TEST(BlockViewLimit, IsWhatTheSystemAllows) {
  EXPECT_GE(BlockViews::default_limit(), 1024u);
  EXPECT_LE(std::uint64_t{BlockViews::default_limit()} * 2,
            std::max<std::uint64_t>(os::max_mappings(), 2048));
}

TEST(BlockViewLimit, HugePagesCannotBeRemapped) {
  const auto heap = Heap::create(kClock, {.huge_pages = os::HugePages::kIfAvailable, .remap = Remap::kMmap});
  ASSERT_FALSE(heap);
  EXPECT_EQ(heap.error(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace yonder::node
