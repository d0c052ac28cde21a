// What the object API promises, on every provider.
#include <algorithm>
#include <cstring>

#include "yonder/client/remote_ptr.h"
#include "yonder/client/suite/bed.h"
#include "yonder/testing/patience.h"

namespace yonder::client::suite {
namespace {

using fabric::Task;

TEST_P(ObjectSuite, AnObjectIsZeroThenWhatWasWritten) {
  serve();
  const auto session = connect();
  for (const std::uint32_t bytes : {1u, 8u, 63u, 64u, 100u, 1000u, 4096u, 16000u}) {
    ObjectPtr object = session->alloc(bytes).value();
    EXPECT_EQ(object.node(), node::NodeId(7));
    std::vector<std::byte> out(bytes, std::byte{1});
    ASSERT_TRUE(session->direct_read(object, out));
    EXPECT_EQ(number_in(out), 0u) << bytes;
    const auto data = pattern(bytes, 0x5a);
    const auto written = session->write(object, data);
    ASSERT_TRUE(written) << written.error();
    std::ranges::fill(out, std::byte{1});
    const auto direct = session->direct_read(object, out);
    ASSERT_TRUE(direct) << direct.error();
    EXPECT_EQ(*direct, *written);
    EXPECT_EQ(out, data) << bytes;
    std::ranges::fill(out, std::byte{1});
    EXPECT_EQ(session->read(object, out).value(), *written);
    EXPECT_EQ(out, data) << bytes;
    std::ranges::fill(out, std::byte{1});
    EXPECT_EQ(session->scan_read(object, out).value(), *written);
    EXPECT_EQ(out, data) << bytes;
    EXPECT_TRUE(session->free(object));
  }
}

TEST_P(ObjectSuite, LargeObjectsAreReadAndWrittenInParts) {
  serve();
  const auto session = connect();
  for (const std::uint32_t bytes : {session->max_data() + 1, 300'000u, 3'000'000u}) {
    const auto made = session->alloc(bytes);
    ASSERT_TRUE(made) << made.error();
    ObjectPtr object = *made;
    const auto data = pattern(bytes, 0x0123456789abcdef);
    const auto written = session->write(object, data);
    ASSERT_TRUE(written) << written.error();
    std::vector<std::byte> out(bytes);
    const auto read = session->read(object, out);
    ASSERT_TRUE(read) << read.error();
    EXPECT_EQ(*read, *written);
    EXPECT_EQ(out, data);
    std::ranges::fill(out, std::byte{});
    const auto direct = session->direct_read(object, out);
    ASSERT_TRUE(direct) << direct.error();
    EXPECT_EQ(*direct, *written);
    EXPECT_EQ(out, data);
    EXPECT_EQ(session->write_if_version(object, ObjectVersion(written->value() + 7), data).error(),
              ErrorCode::kVersionMismatch);
    EXPECT_TRUE(session->free(object));
  }
  EXPECT_EQ(server_->stats().staged_bytes, 0u);
}

TEST_P(ObjectSuite, AConditionalWriteHappensOnlyOnThatVersion) {
  serve();
  const auto session = connect();
  ObjectPtr object = session->alloc(8).value();
  const auto first = session->write(object, pattern(8, 1)).value();
  const auto second = session->write_if_version(object, first, pattern(8, 2));
  ASSERT_TRUE(second) << second.error();
  EXPECT_EQ(session->write_if_version(object, first, pattern(8, 3)).error(), ErrorCode::kVersionMismatch);
  std::vector<std::byte> out(8);
  EXPECT_EQ(session->direct_read(object, out).value(), *second);
  EXPECT_EQ(number_in(out), 2u);
}

TEST_P(ObjectSuite, EveryCallIsAlsoACoroutine) {
  serve();
  const auto session = connect();
  const auto body = [&]() -> Task<void> {
    const auto made = co_await session->async_alloc(50);
    EXPECT_TRUE(made);
    ObjectPtr object = *made;
    const auto data = pattern(50, 9);
    const auto written = co_await session->async_write(object, data);
    EXPECT_TRUE(written);
    const auto again = co_await session->async_write_if_version(object, *written, data);
    EXPECT_TRUE(again);
    std::vector<std::byte> out(50);
    EXPECT_EQ(co_await session->async_read(object, out), *again);
    EXPECT_EQ(co_await session->async_direct_read(object, out), *again);
    EXPECT_EQ(co_await session->async_scan_read(object, out), *again);
    EXPECT_EQ(number_in(out), 9u);
    EXPECT_TRUE(co_await session->async_find(object));
    EXPECT_TRUE(co_await session->async_release_ptr(object));
    EXPECT_TRUE(co_await session->async_free(object));
    EXPECT_FALSE(co_await session->async_free(object));
  };
  session->scheduler().block_on(body());
}

TEST_P(ObjectSuite, ManyCoroutinesShareASession) {
  serve();
  const auto session = connect({.max_outstanding = 4, .depth = 4});
  int finished = 0;
  const auto body = [&](std::uint64_t number) -> Task<void> {
    const auto made = co_await session->async_alloc(100);
    EXPECT_TRUE(made) << made.error();
    ObjectPtr object = *made;
    const auto data = pattern(100, number);
    for (int i = 0; i < 5; ++i) {
      const auto written = co_await session->async_write(object, data);
      EXPECT_TRUE(written) << written.error();
      std::vector<std::byte> out(100);
      const auto seen = co_await session->async_direct_read(object, out);
      EXPECT_EQ(seen, written);
      EXPECT_EQ(out, data);
    }
    ++finished;
  };
  for (std::uint64_t i = 0; i < 40; ++i) session->scheduler().spawn(body(i + 1));
  const Deadline deadline = Deadline::after(session->clock(), ::yonder::testing::kPatience);
  while (finished < 40 && !deadline.passed(session->clock().now())) {
    session->scheduler().block_on([](fabric::Scheduler& scheduler) -> Task<void> {
      co_await scheduler.sleep_for(std::chrono::microseconds(50));
    }(session->scheduler()));
  }
  EXPECT_EQ(finished, 40);
}

TEST_P(ObjectSuite, BatchesDoWhatSingleCallsDo) {
  serve();
  const auto session = connect();
  constexpr std::size_t kCount = 700;
  std::vector<AllocItem> allocs(kCount);
  for (std::size_t i = 0; i < kCount; ++i) allocs[i].bytes = static_cast<std::uint32_t>(1 + i * 37 % 2000);
  allocs[5].bytes = 0;
  allocs[6].bytes = 200'000;  // Fits no message.
  session->alloc_many(allocs);
  EXPECT_EQ(allocs[5].result.error(), ErrorCode::kInvalidArgument);
  allocs[5] = {.bytes = 10, .result = session->alloc(10)};

  std::vector<std::vector<std::byte>> data(kCount);
  std::vector<WriteItem> writes(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_TRUE(allocs[i].result) << i << allocs[i].result.error();
    data[i] = pattern(allocs[i].bytes, i * 0x9e3779b97f4a7c15);
    writes[i] = {.object = *allocs[i].result, .data = data[i]};
  }
  session->write_many(writes);

  for (const bool direct : {false, true}) {
    std::vector<std::vector<std::byte>> out(kCount);
    std::vector<ReadItem> reads(kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      out[i].resize(data[i].size());
      reads[i] = {.object = writes[i].object, .out = out[i]};
    }
    reads[3].object = ObjectPtr();
    direct ? session->direct_read_many(reads) : session->read_many(reads);
    for (std::size_t i = 0; i < kCount; ++i) {
      if (i == 3) {
        EXPECT_EQ(reads[i].result.error(), ErrorCode::kInvalidArgument);
        continue;
      }
      ASSERT_TRUE(reads[i].result) << i << ": " << reads[i].result.error();
      EXPECT_EQ(*reads[i].result, *writes[i].result);
      EXPECT_EQ(out[i], data[i]) << i;
    }
  }

  EXPECT_EQ(session->stats().corrections, 0u) << "nothing has moved";

  std::vector<FreeItem> frees(kCount);
  for (std::size_t i = 0; i < kCount; ++i) frees[i].object = writes[i].object;
  session->free_many(frees);
  for (const FreeItem& item : frees) EXPECT_TRUE(item.result) << item.result.error();
  session->free_many(frees);
  for (const FreeItem& item : frees) EXPECT_EQ(item.result.error(), ErrorCode::kNoSuchObject);
}

TEST_P(ObjectSuite, AMovedObjectIsFoundByEveryStrategyAndItsPointerCorrected) {
  serve();
  const auto writer = connect();
  constexpr std::uint32_t kBytes = 120;
  std::vector<ObjectPtr> objects = thin_out(*writer, 1500, kBytes, 5);
  for (std::size_t i = 0; i < objects.size(); ++i)
    ASSERT_TRUE(writer->write(objects[i], pattern(kBytes, i + 1)));
  // Every session has seen the objects where they were.
  const auto by_rpc = connect({.correction = Correction::kRpc});
  const auto by_scan = connect({.correction = Correction::kScan});
  const auto told = connect({.correction = Correction::kTell});
  std::vector<std::byte> out(kBytes);
  for (Session* session : {by_rpc.get(), by_scan.get(), told.get()}) {
    for (ObjectPtr object : objects) {
      const auto version = session->direct_read(object, out);
      ASSERT_TRUE(version) << version.error();
    }
  }
  EXPECT_GT(server_->compact(), 0u);

  std::uint64_t moved = 0;
  for (std::size_t i = 0; i < objects.size(); ++i) {
    for (Session* session : {by_rpc.get(), by_scan.get()}) {
      ObjectPtr object = objects[i];
      const auto version = session->direct_read(object, out);
      ASSERT_TRUE(version) << version.error();
      EXPECT_EQ(number_in(out), i + 1);
      EXPECT_TRUE(same_object(object, objects[i]));
      const std::uint64_t before = session->stats().corrections;
      ASSERT_TRUE(session->direct_read(object, out));
      EXPECT_EQ(session->stats().corrections, before) << "a corrected pointer needs no correction";
    }
    ObjectPtr object = objects[i];
    const auto version = told->direct_read(object, out);
    if (!version) {
      EXPECT_EQ(version.error(), ErrorCode::kObjectMoved);
      ++moved;
      EXPECT_TRUE(told->find(object));
      EXPECT_TRUE(told->direct_read(object, out));
    }
    EXPECT_EQ(number_in(out), i + 1);
    object = objects[i];
    ASSERT_TRUE(by_rpc->scan_read(object, out));
    EXPECT_EQ(number_in(out), i + 1);
  }
  EXPECT_GT(moved, 0u) << "compaction displaced something";
  // A read that loses its connection may correct once more when it goes on.
  const auto fits = [&](std::uint64_t count, const Session& session) {
    return count >= moved && count <= moved + session.stats().lost_connections;
  };
  EXPECT_TRUE(fits(by_rpc->stats().corrections, *by_rpc)) << by_rpc->stats().corrections;
  EXPECT_TRUE(fits(by_scan->stats().corrections, *by_scan)) << by_scan->stats().corrections;
  EXPECT_TRUE(fits(by_scan->stats().scans, *by_scan)) << by_scan->stats().scans;
}

TEST_P(ObjectSuite, AReleasedPointerIsTheOnlyOneLeft) {
  serve();
  const auto session = connect();
  std::vector<ObjectPtr> objects = thin_out(*session, 1000, 100, 6);
  server_->compact();
  const std::uint32_t blocks = server_->stats().heap.blocks;
  std::uint64_t renamed = 0;
  std::vector<std::byte> out(100);
  for (ObjectPtr& object : objects) {
    const ObjectPtr old = object;
    ASSERT_TRUE(session->release_ptr(object));
    EXPECT_TRUE(session->direct_read(object, out));
    if (same_object(old, object)) continue;
    ++renamed;
    ObjectPtr stale = old;
    EXPECT_EQ(session->direct_read(stale, out).error(), ErrorCode::kNoSuchObject);
    EXPECT_EQ(session->read(stale, out).error(), ErrorCode::kNoSuchObject);
  }
  EXPECT_GT(renamed, 0u);
  EXPECT_LT(server_->stats().heap.blocks, blocks) << "block ids were given back";
}

struct Account {
  std::int64_t cents = 0;
  std::uint32_t owner = 0;
  std::uint32_t flags = 0;
};

TEST_P(ObjectSuite, TypedPointersLoadAndStoreValues) {
  serve();
  const auto session = connect();
  auto account = make_remote<Account>(*session, {.cents = 100, .owner = 7});
  ASSERT_TRUE(account) << account.error();
  const auto now = account->direct_load(*session);
  ASSERT_TRUE(now) << now.error();
  EXPECT_EQ(now->value.cents, 100);
  EXPECT_TRUE(account->store_if(*session, now->version, {.cents = 250, .owner = 7}));
  EXPECT_EQ(account->store_if(*session, now->version, {}).error(), ErrorCode::kVersionMismatch);
  EXPECT_EQ(account->load(*session)->value.cents, 250);
  const auto loaded = session->scheduler().block_on(account->async_direct_load(*session));
  EXPECT_EQ(loaded->value.cents, 250);
  const auto body = [&]() -> Task<void> {
    const auto stored = co_await account->async_store(*session, {.cents = 300, .owner = 7});
    EXPECT_TRUE(stored);
    const auto again = co_await account->async_store_if(*session, *stored, {.cents = 400, .owner = 7});
    EXPECT_TRUE(again);
    const auto late = co_await account->async_store_if(*session, *stored, {});
    EXPECT_EQ(late.error(), ErrorCode::kVersionMismatch);
    const auto seen = co_await account->async_load(*session);
    EXPECT_EQ(seen->value.cents, 400);
    EXPECT_EQ(seen->version, *again);
    EXPECT_TRUE(co_await account->async_release(*session));
  };
  session->scheduler().block_on(body());
  const remote_ptr<Account> copy = *account;
  EXPECT_TRUE(copy == *account);
  EXPECT_TRUE(account->free(*session));
  EXPECT_EQ(account->load(*session).error(), ErrorCode::kNoSuchObject);
  const auto gone = session->scheduler().block_on(account->async_load(*session));
  EXPECT_EQ(gone.error(), ErrorCode::kNoSuchObject);
  EXPECT_FALSE(session->scheduler().block_on(account->async_free(*session)));
}

}  // namespace
}  // namespace yonder::client::suite
