// The object API over the end of a node's process: another one goes on with its
// objects, or without.
#include "yonder/client/suite/bed.h"
#include "yonder/testing/patience.h"

namespace yonder::client::suite {
namespace {

fabric::Task<void> rest(fabric::Scheduler& scheduler) {
  co_await scheduler.sleep_for(std::chrono::milliseconds(5));
}

// What is under way when the connection goes may fail, and so may what comes before
// there is a new one; then it does not.
template <typename Call>
void eventually(Session& session, Call call) {
  const Deadline deadline = Deadline::after(session.clock(), ::yonder::testing::kPatience);
  while (!deadline.passed(session.clock().now())) {
    const auto result = call();
    if (result) return;
    ASSERT_TRUE(result.error() == ErrorCode::kConnectionLost || result.error() == ErrorCode::kStopping)
        << result.error();
    session.scheduler().block_on(rest(session.scheduler()));
  }
  FAIL() << "the node does not come back";
}

TEST_P(ObjectSuite, ASessionGoesOnWithANodeThatKeptItsObjects) {
  options.heap.keeper = &keeper_;
  serve();
  const auto session = connect();
  std::vector<ObjectPtr> objects = thin_out(*session, 300, 300, 3);
  ObjectPtr large = session->alloc(200'000).value();
  ASSERT_TRUE(session->write(large, pattern(200'000, 7)));
  for (std::size_t i = 0; i < objects.size(); ++i) ASSERT_TRUE(session->write(objects[i], pattern(300, i)));
  server_->compact();
  std::vector<std::byte> out(300);
  for (int round = 0; round < 2; ++round) {
    for (ObjectPtr& object : objects) ASSERT_TRUE(session->direct_read(object, out));
    restart();
    ASSERT_TRUE(server_->heap().adoption());
    eventually(*session, [&] { return session->direct_read(objects[0], out); });
    for (std::size_t i = 0; i < objects.size(); ++i) {
      const auto direct = session->direct_read(objects[i], out);
      ASSERT_TRUE(direct) << direct.error();
      ASSERT_EQ(number_in(out), i);
      ASSERT_TRUE(session->read(objects[i], out));
      ASSERT_EQ(number_in(out), i);
      ASSERT_TRUE(session->scan_read(objects[i], out));
      ASSERT_EQ(number_in(out), i);
    }
    std::vector<std::byte> whole(200'000);
    ASSERT_TRUE(session->read(large, whole));
    EXPECT_EQ(number_in(whole), 7u);
    ASSERT_TRUE(session->write(large, pattern(200'000, 7)));
    ASSERT_TRUE(session->alloc(300));
  }
}

TEST_P(ObjectSuite, ABatchGoesOnWithANodeThatKeptItsObjects) {
  options.heap.keeper = &keeper_;
  serve();
  const auto session = connect();
  std::vector<ObjectPtr> objects = thin_out(*session, 100, 300, 2);
  std::vector<std::vector<std::byte>> outs(objects.size(), std::vector<std::byte>(300));
  std::vector<ReadItem> items;
  for (std::size_t i = 0; i < objects.size(); ++i) {
    ASSERT_TRUE(session->write(objects[i], pattern(300, i)));
    items.push_back({.object = objects[i], .out = outs[i]});
  }
  session->direct_read_many(items);
  restart();
  std::vector<std::byte> out(300);
  eventually(*session, [&] { return session->read(objects[0], out); });
  session->direct_read_many(items);
  for (std::size_t i = 0; i < items.size(); ++i) {
    ASSERT_TRUE(items[i].result) << items[i].result.error();
    EXPECT_EQ(number_in(outs[i]), i);
  }
}

TEST_P(ObjectSuite, ANodeThatLostItsObjectsIsAnotherOne) {
  if (!is_virtual()) options.pollers = 1;  // So that one seed gives one pointer.
  serve();
  const auto session = connect();
  ObjectPtr object = session->alloc(100).value();
  std::vector<std::byte> out(100);
  ASSERT_TRUE(session->direct_read(object, out));
  // Another life with another tag, which the first one nearly always has.
  const std::uint64_t life = server_->heap().life();
  do restart();
  while (node::life_tag(server_->heap().life()) == node::life_tag(life));
  // The same home block and id, with the node's number and seed: the life tells them apart.
  const auto second = connect();
  ObjectPtr other = second->alloc(100).value();
  ASSERT_TRUE(second->write(other, pattern(100, 5)));
  EXPECT_EQ(object.low(), other.low()) << "as bad as it can be";
  EXPECT_FALSE(same_object(object, other));
  // Somebody stored the pointer and shows it to the new node.
  ObjectPtr stored = object;
  for (const auto& result : {second->direct_read(stored, out), second->read(stored, out),
                             second->write(stored, pattern(100, 6)), second->scan_read(stored, out)}) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error(), ErrorCode::kNoSuchObject);
  }
  EXPECT_EQ(second->free(stored).error(), ErrorCode::kNoSuchObject);
  EXPECT_EQ(second->find(stored).error(), ErrorCode::kNoSuchObject);
  const auto told = [&](ErrorCode code) {
    return code == ErrorCode::kServerReplaced || code == ErrorCode::kConnectionLost ||
           code == ErrorCode::kStopping;
  };
  // Told at once, not at the deadline: nobody has to wait for a node that is gone.
  const Instant began = session->clock().now();
  for (int i = 0; i < 20; ++i) {
    for (const auto& result : {session->direct_read(object, out), session->read(object, out),
                               session->write(object, pattern(100, 6)), session->scan_read(object, out)}) {
      ASSERT_FALSE(result);
      ASSERT_TRUE(told(result.error().code())) << result.error();
    }
  }
  EXPECT_EQ(session->alloc(10).error(), ErrorCode::kServerReplaced);
  EXPECT_LT(session->clock().now() - began, ::yonder::testing::kPatience) << "the timeout of one call";
  ASSERT_TRUE(second->read(other, out));
  EXPECT_EQ(number_in(out), 5u) << "nothing reached it";
}

}  // namespace

}  // namespace yonder::client::suite
