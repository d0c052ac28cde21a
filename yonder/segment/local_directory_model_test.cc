// Random calls against a naive twin, with the directory's rules checked after each.

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/segment/local_directory.h"
#include "yonder/testing/sanitizer.h"
#include "yonder/testing/seed.h"

namespace yonder::segment {
namespace {

class HandClock final : public Clock {
 public:
  Instant now() const override { return now_; }
  void advance(Duration duration) { now_ = now_ + duration; }

 private:
  Instant now_ = Instant::from_ns(1);
};

// What must be true of a segment, as seen from outside.
struct Twin {
  ProcessId owner;
  std::uint64_t epoch = 1;
  ProcessId moving_to;  // 0: not moving
  bool lost = false;
};

TEST(LocalDirectoryModel, HasOneOwnerPerSegmentWhateverHappens) {
  Prng prng(testing::test_seed());
  HandClock clock;
  LocalDirectory directory(clock, {.slots = 32, .lease = std::chrono::seconds(10)});
  std::vector<ProcessId> alive;
  std::map<SegmentId, Twin> twins;
  const auto pick = [&] { return alive[prng.below(alive.size())]; };
  const auto bury = [&](ProcessId dead) {
    for (auto& [id, twin] : twins) {
      if (twin.owner == dead) twin.lost = true;
      if (twin.moving_to == dead) twin.moving_to = ProcessId(0);
    }
  };
  for (int step = 0; step < testing::scaled(20'000); ++step) {
    if (alive.size() < 2) alive.push_back(directory.join("address", {}).value());
    const std::uint64_t what = prng.below(100);
    auto chosen = twins.begin();
    if (!twins.empty()) std::advance(chosen, static_cast<std::ptrdiff_t>(prng.below(twins.size())));
    if (what < 5) {
      if (alive.size() < 6) alive.push_back(directory.join("address", {}).value());
    } else if (what < 8) {
      const std::size_t i = prng.below(alive.size());
      ASSERT_TRUE(directory.leave(alive[i], {}));
      bury(alive[i]);
      EXPECT_EQ(directory.renew(alive[i], {}).error(), ErrorCode::kStaleEpoch);
      alive.erase(alive.begin() + static_cast<std::ptrdiff_t>(i));
    } else if (what < 10) {
      // All but one forget to renew.
      const ProcessId survivor = pick();
      for (const ProcessId process : alive) ASSERT_TRUE(directory.renew(process, {}));
      clock.advance(std::chrono::seconds(9));
      ASSERT_TRUE(directory.renew(survivor, {}));
      clock.advance(std::chrono::seconds(2));
      for (const ProcessId process : alive) {
        if (process != survivor) bury(process);
      }
      alive = {survivor};
    } else if (what < 35) {
      const ProcessId owner = pick();
      const std::uint64_t bytes = kMinSegmentBytes + prng.below(4) * kSlotBytes;
      const Result<SegmentRecord> record = directory.allocate(owner, bytes, {});
      if (record) {
        ASSERT_TRUE(twins.emplace(record->id, Twin{.owner = owner}).second);  // D3
      } else {
        ASSERT_EQ(record.error(), ErrorCode::kResourceExhausted);
      }
    } else if (chosen == twins.end()) {
      continue;
    } else if (what < 50) {
      Twin& twin = chosen->second;
      const ProcessId by = pick();
      const Result<void> freed = directory.deallocate(by, chosen->first, {});
      const bool may = twin.lost || (twin.owner == by && twin.moving_to == ProcessId(0));
      ASSERT_EQ(freed.has_value(), may);
      if (may) twins.erase(chosen);
    } else if (what < 70) {
      Twin& twin = chosen->second;
      const ProcessId from = pick();
      const ProcessId to = pick();
      const bool may = !twin.lost && twin.owner == from && twin.moving_to == ProcessId(0) && from != to;
      ASSERT_EQ(directory.begin_move(chosen->first, from, to, {}).has_value(), may);
      if (may) twin.moving_to = to;
    } else if (what < 90) {
      Twin& twin = chosen->second;
      const ProcessId to = prng.below(4) == 0 ? pick() : twin.moving_to;
      const Move move{chosen->first, twin.owner, to, Epoch(twin.epoch)};
      const bool may = !twin.lost && to != ProcessId(0) && twin.moving_to == to;
      const Result<SegmentRecord> record = directory.commit_move(move, {});
      ASSERT_EQ(record.has_value(), may);
      if (may) {
        // D2: once more gives the same.
        ASSERT_EQ(directory.commit_move(move, {}).value(), *record);
        twin = {.owner = to, .epoch = twin.epoch + 1};
      }
    } else {
      Twin& twin = chosen->second;
      const ProcessId by = pick();
      const Result<void> cancelled = directory.cancel_move(chosen->first, by, {});
      ASSERT_EQ(cancelled.has_value(), !twin.lost);
      if (twin.owner == by || twin.moving_to == by) twin.moving_to = ProcessId(0);
    }
    ASSERT_TRUE(directory.check_invariants());
    for (const auto& [id, twin] : twins) {
      const SegmentRecord record = directory.find(id, {}).value();
      ASSERT_EQ(record.owner, twin.owner);
      ASSERT_EQ(record.epoch, Epoch(twin.epoch));
      ASSERT_EQ(record.state == SegmentState::kLost, twin.lost);
      if (!twin.lost) {
        ASSERT_EQ(record.state == SegmentState::kMoving, twin.moving_to != ProcessId(0));
      }
    }
  }
}

}  // namespace
}  // namespace yonder::segment
