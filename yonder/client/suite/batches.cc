// Batches of the calls that find, release, scan and write under a condition.
#include "yonder/client/suite/bed.h"

namespace yonder::client::suite {
namespace {

// Objects that compaction has moved, each with its number, and their old pointers.
class Moved {
 public:
  Moved(Session& session, node::Server& server, std::vector<ObjectPtr> made) : objects(std::move(made)) {
    for (std::size_t i = 0; i < objects.size(); ++i) EXPECT_TRUE(session.write(objects[i], pattern(200, i)));
    server.compact();
  }
  std::vector<PointerItem> pointers() const {
    std::vector<PointerItem> items;
    for (const ObjectPtr object : objects) items.push_back({.object = object, .result = {}});
    // One that names nothing, in the middle: the others do not mind.
    items.insert(items.begin() + 5, {.object = forged(), .result = {}});
    return items;
  }
  // The right home, an id that nobody has.
  ObjectPtr forged() const {
    const ObjectPtr of = objects[0];
    return ObjectPtr({.home = of.home(),
                      .id = node::ObjectId(static_cast<std::uint16_t>(of.id().value() ^ 0x8000)),
                      .slot = of.slot(),
                      .size = of.size(),
                      .size_class = of.size_class(),
                      .node = of.node(),
                      .life = of.life()});
  }
  std::vector<ObjectPtr> objects;
};

TEST_P(ObjectSuite, ABatchFindsAndReleasesPointers) {
  serve();
  const auto session = connect();
  const Moved moved(*session, *server_, thin_out(*session, 900, 200, 3));
  std::vector<PointerItem> items = moved.pointers();
  session->find_many(items);
  std::size_t corrected = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i == 5) {
      EXPECT_EQ(items[i].result.error(), ErrorCode::kNoSuchObject);
      continue;
    }
    const std::size_t number = i < 5 ? i : i - 1;
    ASSERT_TRUE(items[i].result) << items[i].result.error();
    EXPECT_TRUE(same_object(items[i].object, moved.objects[number]));
    corrected += items[i].object == moved.objects[number] ? 0 : 1;
  }
  EXPECT_GT(corrected, 0u) << "some were displaced";

  std::vector<PointerItem> released = moved.pointers();
  session->scheduler().block_on(session->async_release_ptr_many(released));
  std::vector<std::byte> out(200);
  for (std::size_t i = 0; i < released.size(); ++i) {
    EXPECT_EQ(released[i].result.has_value(), i != 5);
    if (i == 5) continue;
    ASSERT_TRUE(session->read(released[i].object, out));
    EXPECT_EQ(number_in(out), i < 5 ? i : i - 1);
  }
  session->scheduler().block_on(session->async_find_many(released));
  EXPECT_TRUE(released[0].result);
}

TEST_P(ObjectSuite, ABatchScansEveryFrameOnce) {
  serve();
  const auto session = connect();
  const Moved moved(*session, *server_, thin_out(*session, 900, 200, 3));
  std::vector<std::vector<std::byte>> outs(moved.objects.size() + 1, std::vector<std::byte>(200));
  std::vector<ReadItem> items;
  for (std::size_t i = 0; i < moved.objects.size(); ++i)
    items.push_back({.object = moved.objects[i], .out = outs[i]});
  items.push_back({.object = moved.forged(), .out = outs.back()});
  session->scan_read_many(items);
  for (std::size_t i = 0; i < moved.objects.size(); ++i) {
    ASSERT_TRUE(items[i].result) << items[i].result.error();
    EXPECT_EQ(number_in(outs[i]), i);
  }
  EXPECT_EQ(items.back().result.error(), ErrorCode::kNoSuchObject);
  EXPECT_GT(session->stats().scans, 0u);
  EXPECT_LT(session->stats().scans, moved.objects.size() / 2) << "frames, not objects";
  // Corrected pointers are found without the node.
  const std::uint64_t corrections = session->stats().corrections;
  items.pop_back();
  session->scheduler().block_on(session->async_scan_read_many(items));
  for (const ReadItem& item : items) EXPECT_TRUE(item.result);
  EXPECT_EQ(session->stats().corrections, corrections);
}

TEST_P(ObjectSuite, ABatchWritesOnlyWhatHasItsVersion) {
  serve();
  const auto session = connect();
  std::vector<ConditionalWriteItem> items;
  std::vector<std::vector<std::byte>> data;
  // The last does not fit a message and goes alone.
  for (const std::uint32_t bytes : {10u, 200u, 3000u, 200u, 150'000u})
    data.push_back(pattern(bytes, bytes + 1));
  for (const auto& bytes : data) {
    const auto size = static_cast<std::uint32_t>(bytes.size());
    ObjectPtr object = session->alloc(size).value();
    const ObjectVersion version = session->write(object, pattern(size, 7)).value();
    items.push_back({.object = object, .expected = version, .data = bytes});
  }
  items[1].expected = ObjectVersion(items[1].expected.value() + 1);
  session->write_if_version_many(items);
  for (std::size_t i = 0; i < items.size(); ++i) {
    std::vector<std::byte> out(items[i].object.size());
    ASSERT_TRUE(session->read(items[i].object, out));
    if (i == 1) {
      EXPECT_EQ(items[i].result.error(), ErrorCode::kVersionMismatch);
      EXPECT_EQ(number_in(out), 7u);
      continue;
    }
    ASSERT_TRUE(items[i].result) << items[i].result.error();
    EXPECT_EQ(out, data[i]);
    EXPECT_NE(*items[i].result, items[i].expected);
    items[i].expected = *items[i].result;
  }
  session->scheduler().block_on(session->async_write_if_version_many(items));
  EXPECT_TRUE(items[0].result);
  EXPECT_FALSE(items[1].result);
}

TEST_P(ObjectSuite, EveryBatchIsAlsoACoroutine) {
  serve();
  const auto session = connect();
  const auto body = [&]() -> fabric::Task<void> {
    constexpr std::size_t kCount = 300;
    std::vector<AllocItem> allocs(kCount, {.bytes = 200});
    co_await session->async_alloc_many(allocs);
    std::vector<WriteItem> writes(kCount);
    std::vector<std::vector<std::byte>> data;
    for (std::size_t i = 0; i < kCount; ++i) {
      EXPECT_TRUE(allocs[i].result) << allocs[i].result.error();
      data.push_back(pattern(200, i + 1));
      writes[i] = {.object = *allocs[i].result, .data = data[i]};
    }
    co_await session->async_write_many(writes);
    for (const bool direct : {false, true}) {
      std::vector<std::vector<std::byte>> out(kCount, std::vector<std::byte>(200));
      std::vector<ReadItem> reads(kCount);
      for (std::size_t i = 0; i < kCount; ++i) reads[i] = {.object = writes[i].object, .out = out[i]};
      if (direct) {
        co_await session->async_direct_read_many(reads);
      } else {
        co_await session->async_read_many(reads);
      }
      for (std::size_t i = 0; i < kCount; ++i) EXPECT_EQ(reads[i].result, writes[i].result) << i;
      EXPECT_EQ(out, data);
    }
    std::vector<FreeItem> frees(kCount);
    for (std::size_t i = 0; i < kCount; ++i) frees[i].object = writes[i].object;
    co_await session->async_free_many(frees);
    for (const FreeItem& item : frees) EXPECT_TRUE(item.result) << item.result.error();
    co_await session->async_free_many(frees);
    for (const FreeItem& item : frees) EXPECT_EQ(item.result.error(), ErrorCode::kNoSuchObject);
  };
  session->scheduler().block_on(body());
}

}  // namespace
}  // namespace yonder::client::suite
