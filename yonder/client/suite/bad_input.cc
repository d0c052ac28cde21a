// What clients can do wrong, on every provider: clear errors, nothing else touched.
#include "yonder/base/prng.h"
#include "yonder/client/suite/bed.h"
#include "yonder/testing/patience.h"
#include "yonder/testing/seed.h"

namespace yonder::client::suite {
namespace {

using node::BlockId;
using node::NodeId;
using node::ObjectId;

bool is_refusal(const Error& error) {
  return error == ErrorCode::kNoSuchObject || error == ErrorCode::kInvalidArgument ||
         error == ErrorCode::kForeignPointer || error == ErrorCode::kOutOfBounds;
}

// kOk for a success: asking one for its error would be a mistake of our own.
template <typename T>
ErrorCode code_of(const Result<T>& result) {
  return result ? ErrorCode::kOk : result.error().code();
}

// All that can be tried with a pointer that names nothing.
void expect_refused(Session& session, ObjectPtr object, ErrorCode code) {
  std::vector<std::byte> bytes(8);
  EXPECT_EQ(code_of(session.read(object, bytes)), code);
  EXPECT_EQ(code_of(session.direct_read(object, bytes)), code);
  EXPECT_EQ(code_of(session.scan_read(object, bytes)), code);
  EXPECT_EQ(code_of(session.write(object, bytes)), code);
  EXPECT_EQ(code_of(session.write_if_version(object, ObjectVersion(1), bytes)), code);
  EXPECT_EQ(code_of(session.find(object)), code);
  EXPECT_EQ(code_of(session.release_ptr(object)), code);
  EXPECT_EQ(code_of(session.free(object)), code);
}

TEST_P(ObjectSuite, AFreedPointerNamesNothing) {
  serve();
  const auto session = connect();
  const ObjectPtr object = session->alloc(100).value();
  ASSERT_TRUE(session->free(object));
  expect_refused(*session, object, ErrorCode::kNoSuchObject);
  // Nor does it when its slot has a new inhabitant.
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(session->alloc(100));
  expect_refused(*session, object, ErrorCode::kNoSuchObject);
}

TEST_P(ObjectSuite, AFreedLargeObjectNamesNothing) {
  serve();
  const auto session = connect();
  const ObjectPtr object = session->alloc(3 << 20).value();
  ASSERT_TRUE(session->free(object));
  expect_refused(*session, object, ErrorCode::kNoSuchObject);
}

TEST_P(ObjectSuite, NullForeignAndForgedPointersAreRefused) {
  serve();
  const auto session = connect();
  expect_refused(*session, ObjectPtr(), ErrorCode::kInvalidArgument);
  const ObjectPtr object = session->alloc(100).value();
  const ObjectPtr::Fields fields{.home = object.home(),
                                 .id = object.id(),
                                 .slot = object.slot(),
                                 .size = object.size(),
                                 .size_class = object.size_class(),
                                 .node = object.node(),
                                 .life = object.life()};
  auto foreign = fields;
  foreign.node = NodeId(8);
  expect_refused(*session, ObjectPtr(foreign), ErrorCode::kForeignPointer);
  auto other_life = fields;
  other_life.life = node::LifeTag(static_cast<std::uint16_t>(object.life().value() ^ 1));
  expect_refused(*session, ObjectPtr(other_life), ErrorCode::kNoSuchObject);
  auto other_id = fields;
  other_id.id = ObjectId(static_cast<std::uint16_t>(object.id().value() ^ 0x8000));
  expect_refused(*session, ObjectPtr(other_id), ErrorCode::kNoSuchObject);
  auto other_block = fields;
  other_block.home = BlockId((1 << 26) - 1);
  expect_refused(*session, ObjectPtr(other_block), ErrorCode::kNoSuchObject);
  auto other_class = fields;
  other_class.size_class = static_cast<std::uint8_t>(object.size_class() + 1);
  expect_refused(*session, ObjectPtr(other_class), ErrorCode::kNoSuchObject);
  auto span = fields;
  span.size_class = node::kSpanClass;
  expect_refused(*session, ObjectPtr(span), ErrorCode::kNoSuchObject);
  auto no_class = fields;
  no_class.size_class = 254;
  expect_refused(*session, ObjectPtr(no_class), ErrorCode::kNoSuchObject);
  auto larger = fields;
  larger.size = 5000;
  expect_refused(*session, ObjectPtr(larger), ErrorCode::kNoSuchObject);
  // A wrong hint is no lie about the identity: the object is found.
  ObjectPtr wrong_hint = object.with_slot((1 << 18) - 1);
  std::vector<std::byte> bytes(100);
  EXPECT_TRUE(session->direct_read(wrong_hint, bytes));
  EXPECT_EQ(wrong_hint.slot(), object.slot());
}

TEST_P(ObjectSuite, RandomPointersAreRefusedAndTouchNothing) {
  serve();
  const auto session = connect();
  Prng random(testing::test_seed());
  std::vector<ObjectPtr> objects;
  for (std::uint64_t i = 0; i < 100; ++i) {
    objects.push_back(session->alloc(64).value());
    ASSERT_TRUE(session->write(objects.back(), pattern(64, i + 1)));
  }
  std::vector<std::byte> bytes(64);
  for (int i = 0; i < 150; ++i) {
    ObjectPtr object = ObjectPtr::from_words(random(), random());
    // Half of them plausible: of this node, a class that exists, a block that does.
    if (i % 2 == 0) {
      const ObjectPtr& real = objects[random.below(objects.size())];
      object = ObjectPtr({.home = BlockId(static_cast<std::uint32_t>(real.home().value() + random.below(3))),
                          .id = ObjectId(static_cast<std::uint16_t>(random.below(65536))),
                          .slot = static_cast<std::uint32_t>(random.below(64)),
                          .size = 64,
                          .size_class = real.size_class(),
                          .node = real.node(),
                          .life = real.life()});
      bool exists = false;
      for (const ObjectPtr other : objects) exists = exists || same_object(object, other);
      if (exists) continue;
    }
    for (const Result<ObjectVersion>& result :
         {session->direct_read(object, bytes), session->read(object, bytes), session->write(object, bytes)}) {
      ASSERT_FALSE(result);
      EXPECT_TRUE(is_refusal(result.error())) << result.error();
    }
    const auto freed = session->free(object);
    ASSERT_FALSE(freed);
    EXPECT_TRUE(is_refusal(freed.error())) << freed.error();
  }
  for (std::uint64_t i = 0; i < objects.size(); ++i) {
    ASSERT_TRUE(session->direct_read(objects[i], bytes));
    EXPECT_EQ(number_in(bytes), i + 1);
  }
}

TEST_P(ObjectSuite, SizesOutOfRangeAreRefused) {
  serve();
  const auto session = connect();
  EXPECT_EQ(code_of(session->alloc(0)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(session->alloc((64 << 20) + 1)), ErrorCode::kInvalidArgument);
  ObjectPtr object = session->alloc(100).value();
  std::vector<std::byte> more(101);
  EXPECT_EQ(code_of(session->read(object, more)), ErrorCode::kOutOfBounds);
  EXPECT_EQ(code_of(session->direct_read(object, more)), ErrorCode::kOutOfBounds);
  EXPECT_EQ(code_of(session->write(object, more)), ErrorCode::kOutOfBounds);
  std::vector<std::byte> much_more(100'000);
  EXPECT_EQ(code_of(session->read(object, much_more)), ErrorCode::kOutOfBounds);
  EXPECT_EQ(code_of(session->write(object, much_more)), ErrorCode::kOutOfBounds);
  EXPECT_TRUE(session->write(object, {})) << "nothing is a prefix of everything";
  EXPECT_TRUE(session->direct_read(object, {}));
  EXPECT_TRUE(session->read(object, {}));
}

TEST_P(ObjectSuite, ANodeAtItsLimitSaysSoAndGoesOn) {
  options.heap.limit = Bytes(2 << 20);
  serve();
  const auto session = connect();
  std::vector<ObjectPtr> objects;
  for (;;) {
    const auto object = session->alloc(20'000);
    if (!object) {
      EXPECT_EQ(object.error(), ErrorCode::kOutOfMemory);
      break;
    }
    objects.push_back(*object);
    ASSERT_LT(objects.size(), 1000u);
  }
  ASSERT_FALSE(objects.empty());
  EXPECT_EQ(code_of(session->alloc(64 << 20)), ErrorCode::kOutOfMemory);
  std::vector<std::byte> bytes(20'000);
  EXPECT_TRUE(session->direct_read(objects.front(), bytes));
  EXPECT_TRUE(session->write(objects.back(), bytes));
  for (const ObjectPtr object : objects) EXPECT_TRUE(session->free(object));
  EXPECT_TRUE(session->alloc(20'000));
}

TEST_P(ObjectSuite, AStoppedNodeSaysSo) {
  serve();
  const auto session = connect();
  const auto within = [&](Duration duration) { return Deadline::after(session->clock(), duration); };
  ObjectPtr object = session->alloc(100).value();
  std::vector<std::byte> bytes(100);
  ASSERT_TRUE(session->direct_read(object, bytes));
  if (is_virtual()) {
    server_->begin_stop();
    EXPECT_TRUE(scheduler_->run(within(::yonder::testing::kPatience)));
  } else {
    EXPECT_TRUE(server_->stop(within(::yonder::testing::kPatience)));
  }
  EXPECT_TRUE(server_->stopped());
  // Nobody may come back: a little time is enough to be told so.
  constexpr Duration kLittle = std::chrono::milliseconds(300);
  EXPECT_FALSE(session->alloc(10, within(kLittle)));
  EXPECT_FALSE(session->write(object, bytes, within(kLittle)));
  // A one-sided reader notices when the memory goes, at the latest.
  server_.reset();
  EXPECT_FALSE(session->direct_read(object, bytes, within(kLittle)));
}

TEST_P(ObjectSuite, AClosedSessionSaysSo) {
  serve();
  const auto session = connect();
  ObjectPtr object = session->alloc(100).value();
  session->close();
  std::vector<std::byte> bytes(100);
  EXPECT_EQ(code_of(session->alloc(1)), ErrorCode::kClosed);
  EXPECT_EQ(code_of(session->direct_read(object, bytes)), ErrorCode::kClosed);
}

}  // namespace
}  // namespace yonder::client::suite
