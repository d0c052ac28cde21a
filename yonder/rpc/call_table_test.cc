#include "yonder/rpc/call_table.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "yonder/base/prng.h"
#include "yonder/rpc/call.h"
#include "yonder/testing/seed.h"

namespace yonder::rpc {
namespace {

// The table borrows client and calls as addresses only; none is ever touched.
class CallTableTest : public ::testing::Test {
 protected:
  Client& client() { return reinterpret_cast<Client&>(memory_[0]); }
  CallBase& call(std::size_t i) { return reinterpret_cast<CallBase&>(memory_[64 * (i + 1)]); }
  static void ignore(fabric::Operation&, const fabric::Completion&) {}

  alignas(64) std::byte memory_[64 * 16];
  CallTable table_{4, 100, client(), &ignore};
};

TEST_F(CallTableTest, AnAnswerFindsItsCall) {
  CallTable::Slot& slot = table_.take(call(0));
  EXPECT_EQ(table_.find(slot.request_id), &slot);
  EXPECT_EQ(slot.call, &call(0));
  table_.check_invariants();
}

TEST_F(CallTableTest, AnAnswerToAnEarlierRequestOfTheSlotIsUnknown) {
  const std::uint64_t old = table_.take(call(0)).request_id;
  table_.answered(*table_.find(old));
  CallTable::Slot& again = table_.take(call(1));
  EXPECT_EQ(again.request_id & 0xffff, old & 0xffff) << "the slot used last is used first";
  EXPECT_EQ(table_.find(old), nullptr);
}

TEST_F(CallTableTest, GarbageIdsAreUnknown) {
  table_.take(call(0));
  EXPECT_EQ(table_.find(0), nullptr);
  EXPECT_EQ(table_.find(0xffff), nullptr);
  EXPECT_EQ(table_.find(~std::uint64_t{0}), nullptr);
}

TEST_F(CallTableTest, ASlotIsNotFreeWhileTheFabricReadsItsBuffer) {
  CallTable::Slot& slot = table_.take(call(0));
  slot.sending = true;
  table_.answered(slot);
  EXPECT_EQ(table_.free_count(), 3u);
  table_.check_invariants();
  table_.sent(slot);
  EXPECT_EQ(table_.free_count(), 4u);
  table_.check_invariants();
}

TEST_F(CallTableTest, BuffersDoNotOverlap) {
  std::set<std::byte*> starts;
  for (std::size_t i = 0; i < 4; ++i) starts.insert(table_.take(call(i)).buffer);
  EXPECT_FALSE(table_.has_free());
  std::byte* last = nullptr;
  for (std::byte* start : starts) {
    if (last != nullptr) {
      EXPECT_GE(start - last, 100);
    }
    last = start;
  }
}

TEST_F(CallTableTest, RandomUseKeepsTheInvariants) {
  Prng prng(testing::test_seed());
  std::map<std::uint64_t, bool> sending;  // By live request id.
  std::set<std::uint64_t> ever;
  for (int i = 0; i < 5000; ++i) {
    if (prng.chance(0.5) && table_.has_free()) {
      CallTable::Slot& slot = table_.take(call(prng.below(8)));
      slot.sending = prng.chance(0.5);
      EXPECT_TRUE(ever.insert(slot.request_id).second) << "ids never repeat";
      sending[slot.request_id] = slot.sending;
    } else if (!sending.empty()) {
      const auto [id, is_sending] =
          *std::next(sending.begin(), static_cast<long>(prng.below(sending.size())));
      CallTable::Slot& slot = *table_.find(id);
      if (is_sending) table_.sent(slot);
      table_.answered(slot);
      sending.erase(id);
    }
    table_.check_invariants();
    EXPECT_EQ(table_.free_count(), 4 - sending.size());
  }
}

}  // namespace
}  // namespace yonder::rpc
