// Random operations on a heap against a naive twin: a map from pointers to bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/node/block_views.h"
#include "yonder/node/heap.h"
#include "yonder/os/steady_clock.h"
#include "yonder/testing/sanitizer.h"
#include "yonder/testing/seed.h"

namespace yonder::node {
namespace {

const os::SteadyClock kClock;

constexpr std::uint32_t kThreads = 3;

class Twins {
 public:
  Twins(HeapOptions options, std::uint64_t seed) : random_(seed) {
    options.seed = seed | 1;
    options.max_threads = kThreads;  // Every check looks at all of them.
    heap_ = Heap::create(kClock, options).value();
    for (std::uint32_t i = 0; i < kThreads; ++i) threads_.push_back(heap_->register_thread().value());
  }

  // One random operation on both.
  void step() {
    const std::uint64_t dice = random_.below(100);
    if (dice < 30) {
      alloc();
    } else if (objects_.empty()) {
      return;
    } else if (dice < 50) {
      free();
    } else if (dice < 65) {
      write();
    } else if (dice < 85) {
      read();
    } else if (dice < 88) {
      release();
    } else if (dice < 92) {
      use_dead_pointer();
    } else {
      compact();
    }
  }
  void check() {
    heap_->check_invariants();
    std::uint64_t live = 0;
    const HeapStats all = heap_->stats();  // Named: g++ 12 would not keep it alive for the loop.
    for (const ClassStats& stats : all.classes) live += stats.live;
    ASSERT_EQ(live, objects_.size());
  }
  void check_all_values() {
    for (Twin& twin : objects_) expect_value(twin);
  }
  // Leaves a compactor something to do, whatever the dice said before, and lets it.
  void compact_for_sure() {
    constexpr int kMany = 2000;
    for (int i = 0; i < kMany; ++i) alloc();
    thin_out();
    heap_->compactor().compact_all();
  }
  // Frees most of everything: what makes compaction worth it.
  void thin_out() {
    for (std::size_t i = objects_.size(); i-- > 0;) {
      if (random_.chance(0.7)) free_at(i);
    }
  }

 private:
  struct Twin {
    ObjectPtr object;
    std::vector<std::byte> bytes;
    ObjectVersion version;
  };

  HeapThread& thread() { return threads_[random_.below(threads_.size())]; }
  Twin& any() { return objects_[random_.below(objects_.size())]; }

  std::uint32_t random_size() {
    // Few classes, so that each has enough objects; now and then any size.
    constexpr std::uint32_t kSizes[] = {1, 24, 32, 100, 500, 2048, 9000};
    if (random_.below(200) == 0) return static_cast<std::uint32_t>(1 + random_.below(1 << 20));
    return kSizes[random_.below(std::size(kSizes))];
  }

  void alloc() {
    const std::uint32_t size = random_size();
    const auto object = thread().alloc(size);
    if (!object) {
      ASSERT_EQ(object.error(), ErrorCode::kOutOfMemory);
      thin_out();
      return;
    }
    objects_.push_back({*object, std::vector<std::byte>(size), {}});
    expect_value(objects_.back());
  }

  void free() { free_at(random_.below(objects_.size())); }
  void free_at(std::size_t index) {
    ASSERT_TRUE(thread().free(objects_[index].object));
    dead_.push_back(objects_[index].object);
    if (dead_.size() > 100) dead_.erase(dead_.begin());
    std::swap(objects_[index], objects_.back());
    objects_.pop_back();
  }

  void write() {
    Twin& twin = any();
    std::vector<std::byte> data(1 + random_.below(twin.bytes.size()));
    for (std::byte& b : data) b = static_cast<std::byte>(random_());
    if (random_.below(2) == 0) {
      const auto refused =
          thread().write_if_version(twin.object, ObjectVersion(twin.version.value() + 1), data);
      ASSERT_FALSE(refused);
      ASSERT_EQ(refused.error(), ErrorCode::kVersionMismatch);
      ASSERT_TRUE(thread().write_if_version(twin.object, twin.version, data));
    } else {
      ASSERT_TRUE(thread().write(twin.object, data));
    }
    std::ranges::copy(data, twin.bytes.begin());
    expect_value(twin);
  }

  void read() { expect_value(any()); }
  void expect_value(Twin& twin) {
    std::vector<std::byte> out(twin.bytes.size());
    const auto version = thread().read(twin.object, out);
    ASSERT_TRUE(version) << version.error();
    ASSERT_EQ(out, twin.bytes);
    twin.version = *version;
  }

  void release() {
    Twin& twin = any();
    const auto released = thread().release_ptr(twin.object);
    ASSERT_TRUE(released) << released.error();
    if (!same_object(*released, twin.object)) dead_.push_back(twin.object);
    twin.object = *released;
    expect_value(twin);
  }

  // A dead pointer may, rarely, name a new object by now: G2 promises no more.
  void use_dead_pointer() {
    if (dead_.empty()) return;
    ObjectPtr object = dead_[random_.below(dead_.size())];
    const bool reborn =
        std::ranges::any_of(objects_, [&](const Twin& twin) { return same_object(twin.object, object); });
    if (reborn) return;
    std::vector<std::byte> out(1);
    ASSERT_EQ(thread().read(object, out).error(), ErrorCode::kNoSuchObject);
    ASSERT_EQ(thread().write(object, out).error(), ErrorCode::kNoSuchObject);
    ASSERT_EQ(thread().free(object).error(), ErrorCode::kNoSuchObject);
  }

  void compact() {
    const std::uint8_t size_class = heap_->classes().class_for(random_size() % 16000 + 1);
    Compactor& compactor = heap_->compactor();
    switch (random_.below(8)) {
      case 0:
        compactor.compact(size_class);
        break;
      case 1:
        compactor.stop(size_class);
        break;
      case 2:
        if (random_.below(20) == 0) compactor.compact_all();
        break;
      case 3:
        compactor.dry_run(size_class);
        break;
      default:
        compactor.slice(size_class, {.blocks = static_cast<std::uint32_t>(1 + random_.below(20)),
                                     .time = std::chrono::seconds(1)});
    }
  }

  Prng random_;
  std::unique_ptr<Heap> heap_;
  std::vector<HeapThread> threads_;
  std::vector<Twin> objects_;
  std::vector<ObjectPtr> dead_;
};

// A system that refuses every other switch, the first one to begin with.
class Refusing final : public ViewObserver {
 public:
  Result<void> placed(const BlockView&) override { return {}; }
  Result<void> moved(const BlockView& view) override {
    if (asked_++ % 2 == 1) return {};
    ++refused;
    return fail(ErrorCode::kResourceExhausted, "a switch that the test refuses", view.block.value());
  }
  void removed(BlockId) override {}

  std::uint64_t refused = 0;

 private:
  std::uint64_t asked_ = 0;
};

void run(const HeapOptions& options, int steps) {
  Twins twins(options, ::yonder::testing::test_seed());
  // Every step looks at everything, which a sanitizer makes slow.
  steps = ::yonder::testing::scaled(steps);
  for (int i = 0; i < steps && !::testing::Test::HasFatalFailure(); ++i) {
    twins.step();
    twins.check();
    if (i % (steps / 3) == steps / 3 - 1) twins.thin_out();
    if (i % 500 == 0) twins.check_all_values();
  }
  twins.compact_for_sure();
  twins.check_all_values();
  twins.check();
}

TEST(HeapModel, AgreesWithItsTwin) { run({.limit = Bytes(16 << 20)}, 12000); }
TEST(HeapModel, AgreesWithItsTwinWithLineVersions) {
  run({.limit = Bytes(16 << 20), .classes = {.validator = Validator::kLines}}, 5000);
}
TEST(HeapModel, AgreesWithItsTwinWithChecksums) {
  run({.limit = Bytes(16 << 20), .classes = {.validator = Validator::kChecksum}}, 5000);
}
TEST(HeapModel, AgreesWithItsTwinWithAnIndex) {
  run({.limit = Bytes(16 << 20), .correction = Correction::kIndex}, 5000);
}
TEST(HeapModel, AgreesWithItsTwinWithOwners) {
  run({.limit = Bytes(16 << 20), .correction = Correction::kOwner}, 5000);
}
TEST(HeapModel, AgreesWithItsTwinInLargeFramesAndWholeFrameBlocks) {
  run({.limit = Bytes(32 << 20), .classes = {.frame_bytes = 64 << 10, .whole_frame_blocks = true}}, 5000);
}
TEST(HeapModel, AgreesWithItsTwinWhenBlocksAreRemapped) {
  run({.limit = Bytes(32 << 20), .classes = {.frame_bytes = 64 << 10}, .remap = Remap::kMmap}, 5000);
}
TEST(HeapModel, AgreesWithItsTwinWhenSwitchesAreRefused) {
  Refusing refusing;
  run({.limit = Bytes(32 << 20),
       .classes = {.frame_bytes = 4096},
       .remap = Remap::kMmap,
       .view_observer = &refusing},
      5000);
  EXPECT_GT(refusing.refused, 0u);
}
TEST(HeapModel, AgreesWithItsTwinAtATightLimit) { run({.limit = Bytes(3 << 20)}, 6000); }

}  // namespace
}  // namespace yonder::node
