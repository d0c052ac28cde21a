// A node at its memory limit: allocations wait for memory, and nobody waits for them.
#include <atomic>
#include <memory>
#include <optional>
#include <thread>

#include "yonder/client/suite/bed.h"
#include "yonder/os/steady_clock.h"
#include "yonder/testing/patience.h"

namespace yonder::client::suite {

// Not in virtual time.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ThreadedSuite);

namespace {

using fabric::Task;

constexpr std::uint32_t kBytes = 3000;
constexpr std::uint64_t kLimit = 2 << 20;

// Holds up whoever looks for memory until a test lets it go on.
class Obstacle {
 public:
  // HeapOptions::on_shortage.
  bool meet() const {
    if (!is_armed_.load()) return false;
    const os::SteadyClock clock;
    const Deadline deadline = Deadline::after(clock, ::yonder::testing::kPatience);
    while (is_armed_.load() && !deadline.passed(clock.now())) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;  // Something may have been freed.
  }
  void arm() { is_armed_.store(true); }
  void remove() { is_armed_.store(false); }

 private:
  std::atomic<bool> is_armed_{false};
};

// Lets the session work until `done` says so.
template <typename Done>
bool eventually(Session& session, Done&& done) {
  const Deadline deadline = Deadline::after(session.clock(), ::yonder::testing::kPatience);
  bool is_done = false;
  const auto look = [&]() -> Task<void> {
    while (!(is_done = done()) && !deadline.passed(session.clock().now())) {
      co_await session.scheduler().sleep_for(std::chrono::microseconds(100));
    }
  };
  session.scheduler().block_on(look());
  return is_done;
}

// Until the node says that it is full, and nobody waits for memory any more: a call is counted for
// a moment after its answer, and would be taken for the next one.
std::vector<ObjectPtr> fill(Session& session, const node::Server& server) {
  std::vector<ObjectPtr> objects;
  for (bool is_full = false; !is_full;) {
    std::vector<AllocItem> items(50, {.bytes = kBytes});
    session.alloc_many(items);
    for (const AllocItem& item : items) {
      if (item.result) {
        objects.push_back(*item.result);
      } else {
        EXPECT_EQ(item.result.error(), ErrorCode::kOutOfMemory);
        is_full = true;
      }
    }
  }
  EXPECT_GT(objects.size(), 100u);
  EXPECT_TRUE(eventually(session, [&] { return server.stats().waiting == 0; }));
  return objects;
}

// All but every fourth object go.
void thin_out_all(Session& session, const std::vector<ObjectPtr>& objects) {
  std::vector<FreeItem> items;
  for (std::size_t i = 0; i < objects.size(); ++i) {
    if (i % 4 != 0) items.push_back({.object = objects[i]});
  }
  session.free_many(items);
  for (const FreeItem& item : items) ASSERT_TRUE(item.result) << item.result.error();
}

// An allocation that is under way. It may outlive this, in a test that has failed.
class Allocation {
 public:
  explicit Allocation(Session& session) { session.scheduler().spawn(run(session, result_)); }
  bool is_done() const { return result_->has_value(); }
  const Result<ObjectPtr>& result() const { return **result_; }

 private:
  using Outcome = std::shared_ptr<std::optional<Result<ObjectPtr>>>;
  static Task<void> run(Session& session, Outcome result) { *result = co_await session.async_alloc(kBytes); }

  Outcome result_ = std::make_shared<Outcome::element_type>();
};

TEST_P(ThreadedSuite, AnAllocationThatWaitsForMemoryHoldsUpNobody) {
  Obstacle obstacle;
  options.heap.limit = Bytes(kLimit);
  options.heap.on_shortage = [&] { return obstacle.meet(); };
  serve();
  const auto session = connect();
  std::vector<ObjectPtr> objects = fill(*session, *server_);
  obstacle.arm();
  const Allocation allocation(*session);
  const auto others = [&]() -> Task<void> {
    std::vector<std::byte> bytes(kBytes);
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_TRUE(co_await session->async_write(objects[i], bytes));
      EXPECT_TRUE(co_await session->async_read(objects[i], bytes));
    }
    EXPECT_FALSE(allocation.is_done()) << "it waits on the same connection";
    // More than one frame's, so that one of them becomes empty.
    for (std::size_t i = objects.size() - 100; i < objects.size(); ++i) {
      EXPECT_TRUE(co_await session->async_free(objects[i]));
    }
  };
  session->scheduler().block_on(others());
  obstacle.remove();
  ASSERT_TRUE(eventually(*session, [&] { return allocation.is_done(); }));
  EXPECT_TRUE(allocation.result()) << allocation.result().error();
  EXPECT_TRUE(eventually(*session, [&] { return server_->stats().waiting == 0; }));
}

TEST_P(ObjectSuite, AnAllocationAtTheLimitIsGivenWhatCompactionWinsBack) {
  options.heap.limit = Bytes(kLimit);
  serve();
  const auto session = connect();
  thin_out_all(*session, fill(*session, *server_));
  const std::uint64_t before = server_->stats().compaction.frames_freed;
  const auto object = session->alloc(60'000);
  EXPECT_TRUE(object) << object.error();
  EXPECT_GT(server_->stats().compaction.frames_freed, before);
}

TEST_P(ObjectSuite, ABatchOfAllocationsAtTheLimitGetsAllThatThereIs) {
  options.heap.limit = Bytes(kLimit);
  serve();
  const auto session = connect();
  thin_out_all(*session, fill(*session, *server_));
  std::vector<AllocItem> items(100, {.bytes = 60'000});
  session->alloc_many(items);
  std::size_t made = 0;
  for (const AllocItem& item : items) {
    if (item.result)
      ++made;
    else
      EXPECT_EQ(item.result.error(), ErrorCode::kOutOfMemory);
  }
  EXPECT_GT(made, 10u) << "compaction won back more than a mebibyte";
  EXPECT_LT(made, items.size());
  EXPECT_TRUE(items[0].result) << "it waited";
}

TEST_P(ThreadedSuite, AnAllocationThatWaitsEndsWhenTheNodeStops) {
  Obstacle obstacle;
  options.heap.limit = Bytes(kLimit);
  options.heap.on_shortage = [&] { return obstacle.meet(); };
  serve();
  const auto session = connect();
  fill(*session, *server_);
  obstacle.arm();
  const Allocation allocation(*session);
  ASSERT_TRUE(eventually(*session, [&] { return server_->stats().waiting == 1; }));
  server_->begin_stop();
  obstacle.remove();
  const Deadline deadline = Deadline::after(session->clock(), ::yonder::testing::kPatience);
  std::thread stopping([&] { EXPECT_TRUE(server_->stop(deadline)); });
  EXPECT_TRUE(eventually(*session, [&] { return allocation.is_done(); }));
  // Unless the look at the heap that was under way ended first, and found nothing.
  const Error ended = allocation.result().error();
  EXPECT_TRUE(ended == ErrorCode::kStopping || ended == ErrorCode::kOutOfMemory) << ended;
  stopping.join();
}

TEST_P(ThreadedSuite, AClientThatGoesWhileItsAllocationWaitsLeavesNoObject) {
  Obstacle obstacle;
  options.heap.limit = Bytes(kLimit);
  options.heap.on_shortage = [&] { return obstacle.meet(); };
  serve();
  const auto session = connect();
  const std::vector<ObjectPtr> objects = fill(*session, *server_);
  obstacle.arm();
  {
    auto gone = connect();
    const Allocation allocation(*gone);
    ASSERT_TRUE(eventually(*gone, [&] { return server_->stats().waiting == 1; }));
    gone.reset();  // Ends the allocation, which must still be there.
  }
  ASSERT_TRUE(eventually(*session, [&] { return server_->stats().connections == 1; }));
  ASSERT_TRUE(session->free(objects.back()));
  obstacle.remove();
  ASSERT_TRUE(eventually(*session, [&] { return server_->stats().waiting == 0; }));
  std::uint64_t live = 0;
  for (const node::ClassStats& stats : server_->stats().heap.classes) live += stats.live;
  EXPECT_EQ(live, objects.size() - 1);
}

}  // namespace
}  // namespace yonder::client::suite
