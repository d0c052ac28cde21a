#include "yonder/heap/slot_store.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <thread>
#include <vector>

#include "yonder/os/process.h"
#include "yonder/os/steady_clock.h"

namespace yonder::heap {
namespace {

using Page = std::array<std::byte, kPageBytes>;

Page page_of(unsigned char fill) {
  Page page;
  page.fill(std::byte{fill});
  return page;
}

std::unique_ptr<SlotStore> small_store(const char* link = "") {
  auto store = SlotStore::open({.link = link, .bytes = Bytes(1 << 20), .lanes = 2});
  EXPECT_TRUE(store) << store.error().to_string();
  return std::move(*store);
}

TEST(SlotStore, GivesBackWhatWasWritten) {
  const auto store = small_store();
  Page out = page_of(7);
  const Transfer write{.local = out.data(), .bytes = kPageBytes, .offset = 3 * kPageBytes};
  ASSERT_TRUE(store->write_many({&write, 1}));
  Page in = page_of(0);
  ASSERT_TRUE(store->read({.local = in.data(), .bytes = kPageBytes, .offset = 3 * kPageBytes}));
  EXPECT_EQ(in, out);
  // A part of a slot.
  std::array<std::byte, 16> part{};
  ASSERT_TRUE(store->read({.local = part.data(), .bytes = 16, .offset = 3 * kPageBytes + 64}));
  EXPECT_EQ(part[0], std::byte{7});
}

TEST(SlotStore, ShowsWhereItsBytesAreIfTheyAreHere) {
  const auto store = small_store();
  Page out = page_of(7);
  const Transfer write{.local = out.data(), .bytes = kPageBytes, .offset = 3 * kPageBytes};
  ASSERT_TRUE(store->write_many({&write, 1}));
  const std::byte* here = store->in_place(3 * kPageBytes);
  ASSERT_NE(here, nullptr);
  EXPECT_EQ(std::memcmp(here, out.data(), kPageBytes), 0);
  // As far away as a network: reads must take the way that the model makes long.
  EXPECT_EQ(small_store("model=rdma100g")->in_place(0), nullptr);
}

TEST(SlotStore, MovesMoreThanALaneHoldsAtOnce) {
  const auto store = small_store("model=rdma100g");
  std::vector<Page> pages(200);
  std::vector<Transfer> transfers;
  for (std::size_t i = 0; i < pages.size(); ++i) {
    pages[i] = page_of(static_cast<unsigned char>(i));
    transfers.push_back({.local = pages[i].data(), .bytes = kPageBytes, .offset = i * kPageBytes});
  }
  ASSERT_TRUE(store->write_many(transfers));
  for (Page& page : pages) page.fill(std::byte{0});
  ASSERT_TRUE(store->read_many(transfers));
  for (std::size_t i = 0; i < pages.size(); ++i) EXPECT_EQ(pages[i], page_of(static_cast<unsigned char>(i)));
}

TEST(SlotStore, RefusesWhatIsOutside) {
  const auto store = small_store();
  Page page = page_of(1);
  const Result<void> read =
      store->read({.local = page.data(), .bytes = kPageBytes, .offset = store->bytes() - 16});
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error(), ErrorCode::kOutOfBounds);
  EXPECT_FALSE(SlotStore::open({.bytes = Bytes(0)}));
}

// The child has no thread that could tell its lanes where the memory is.
TEST(SlotStore, IsReadByAChildOnALaneThatTheParentHasNotUsed) {
  const auto store = small_store();
  ASSERT_TRUE(store->is_shared_with_children());
  auto child = os::Child::fork([&] {
    std::byte byte{1};
    return store->read({.local = &byte, .bytes = 1, .offset = 0}) && byte == std::byte{0} ? 0 : 1;
  });
  ASSERT_TRUE(child);
  const auto status = child->wait(Deadline::at(os::SteadyClock::read() + std::chrono::seconds(30)));
  ASSERT_TRUE(status);
  EXPECT_TRUE(status->success());
}

struct Counted : AsyncRead {
  void on_done(const Result<void>& result) override { ok = result.has_value() ? 1 : -1; }
  int ok = 0;
};

TEST(SlotStore, TellsAReadThatNobodyWaitsFor) {
  const auto store = small_store("model=rdma100g");
  Page out = page_of(9);
  const Transfer write{.local = out.data(), .bytes = kPageBytes, .offset = 0};
  ASSERT_TRUE(store->write_many({&write, 1}));
  Page in = page_of(0);
  Counted read;
  read.transfer = {.local = in.data(), .bytes = kPageBytes, .offset = 0};
  AsyncRead* reads[] = {&read};
  ASSERT_EQ(store->start(reads), 1u);
  while (read.ok == 0) store->poll();
  EXPECT_EQ(read.ok, 1);
  EXPECT_EQ(in, out);
}

TEST(SlotStore, ServesMoreThreadsThanItHasLanes) {
  const auto store = small_store();
  std::vector<std::jthread> threads;
  for (unsigned t = 0; t < 6; ++t) {
    threads.emplace_back([&store, t] {
      for (unsigned round = 0; round < 200; ++round) {
        Page out = page_of(static_cast<unsigned char>(t + round));
        const Transfer transfer{.local = out.data(), .bytes = kPageBytes, .offset = t * kPageBytes};
        ASSERT_TRUE(store->write_many({&transfer, 1}));
        Page in = page_of(0);
        ASSERT_TRUE(store->read({.local = in.data(), .bytes = kPageBytes, .offset = t * kPageBytes}));
        ASSERT_EQ(in, out);
      }
    });
  }
}

}  // namespace
}  // namespace yonder::heap
