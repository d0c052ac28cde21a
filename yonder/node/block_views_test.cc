#include "yonder/node/block_views.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "yonder/node/heap.h"
#include "yonder/os/steady_clock.h"
#include "yonder/testing/seed.h"

namespace yonder::node {
namespace {

const os::SteadyClock kClock;

std::unique_ptr<Heap> remapping_heap() {
  return Heap::create(kClock, {.classes = {.frame_bytes = 4096},
                               .remap = Remap::kMmap,
                               .seed = ::yonder::testing::test_seed() | 1})
      .value();
}

// What an RNIC that follows page tables would do: no table, one address.
HeaderWord word_at(const Heap& heap, ObjectPtr object) {
  const std::byte* slot = heap.views()->address(object.home()) +
                          std::uint64_t{object.slot()} * heap.classes()[object.size_class()].slot_bytes;
  return HeaderWord(__atomic_load_n(reinterpret_cast<const std::uint64_t*>(slot), __ATOMIC_ACQUIRE));
}

TEST(BlockViews, ShowEveryObjectAtTheAddressOfItsBlock) {
  const auto heap = remapping_heap();
  HeapThread thread = heap->register_thread().value();
  for (int i = 0; i < 1000; ++i) {
    const ObjectPtr object = thread.alloc(100).value();
    ASSERT_TRUE(word_at(*heap, object).names(object.home(), object.id()));
  }
}

TEST(BlockViews, KeepTheAddressOfABlockThatWasMerged) {
  const auto heap = remapping_heap();
  HeapThread thread = heap->register_thread().value();
  std::vector<ObjectPtr> all;
  for (int i = 0; i < 4000; ++i) all.push_back(thread.alloc(100).value());
  std::vector<ObjectPtr> live;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i % 8 == 0)
      live.push_back(all[i]);
    else
      ASSERT_TRUE(thread.free(all[i]));
  }
  const std::uint8_t size_class = live[0].size_class();
  const FrameId before = heap->blocks().lookup(live[0].home()).frame();
  EXPECT_GT(heap->compactor().compact(size_class), 0u);
  std::size_t moved = heap->blocks().lookup(live[0].home()).frame() == before ? 0 : 1;
  for (const ObjectPtr object : live) {
    const ObjectPtr found = thread.find(object).value();
    ASSERT_TRUE(word_at(*heap, found).names(object.home(), object.id())) << "same block, another frame";
    moved += BlockTable::guess(object.home(), 0) == heap->blocks().lookup(object.home()).frame() ? 0 : 1;
  }
  EXPECT_GT(moved, live.size() / 2);
  heap->check_invariants();
}

TEST(BlockViews, ReadAsZerosOnceTheirBlockIsGone) {
  const auto heap = remapping_heap();
  HeapThread thread = heap->register_thread().value();
  const ObjectPtr object = thread.alloc(3000).value();
  EXPECT_FALSE(word_at(*heap, object).is_free());
  ASSERT_TRUE(thread.free(object));
  heap->reclaim();
  EXPECT_FALSE(heap->blocks().lookup(object.home()).valid());
  EXPECT_TRUE(word_at(*heap, object).never_used());
  EXPECT_TRUE(word_at(*heap, object.with_slot(0)).never_used());
}

TEST(BlockViews, AreThereOnlyIfAskedFor) {
  const auto heap = Heap::create(kClock, {}).value();
  EXPECT_EQ(heap->views(), nullptr);
}

}  // namespace
}  // namespace yonder::node
