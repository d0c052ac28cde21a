// Addresses and link models.
#include "yonder/fabric/shm/internal/place.h"

#include <gtest/gtest.h>

#include "yonder/fabric/shm/test_support.h"

namespace yonder::fabric::shm {
namespace {

TEST(Place, NamesAreAbstractAndPathsAreFiles) {
  const auto name = parse_place("shm:node-1", false);
  ASSERT_TRUE(name) << name.error();
  EXPECT_TRUE(name->path.empty());
  EXPECT_EQ(name->socket.to_string().front(), '@');
  const auto path = parse_place("shm:/run/yonder.sock", false);
  ASSERT_TRUE(path) << path.error();
  EXPECT_EQ(path->path, "/run/yonder.sock");
}

TEST(Place, AnEmptyNameIsAFreshOneForListenersOnly) {
  const auto first = parse_place("shm:", true);
  const auto second = parse_place("shm:?inprocess=off", true);
  ASSERT_TRUE(first && second);
  EXPECT_NE(first->text, second->text);
  EXPECT_TRUE(second->foreign);
  EXPECT_TRUE(parse_place(second->text, false)) << second->text;
  EXPECT_FALSE(parse_place("shm:", false));
}

TEST(Place, RefusesWhatItDoesNotKnow) {
  for (const char* text : {"tcp://h:1", "shm:x?colour=red", "shm:x?inprocess=maybe", "shm:x?peers=all",
                           "shm:x?model=carrier-pigeon", "shm:x?latency_ns=-1", "shm:x?gap_ns=1e3"}) {
    const auto place = parse_place(text, true);
    ASSERT_FALSE(place) << text;
    EXPECT_EQ(place.error(), ErrorCode::kAddressInvalid) << text;
  }
}

TEST(LinkModel, NumbersRefineAPreset) {
  const auto place = parse_place("shm:x?model=rdma100g&gap_ns=99", false);
  ASSERT_TRUE(place) << place.error();
  ASSERT_TRUE(place->model);
  EXPECT_EQ(place->model->latency_ns, 1800);
  EXPECT_EQ(place->model->gap_ns, 99);
  EXPECT_FALSE(parse_place("shm:x", false)->model);
}

TEST(LinkModel, SerialisesByBandwidthAndGap) {
  PacedLink link({.latency_ns = 1000, .gap_ns = 10, .bandwidth_mbps = 1000});  // 1 byte per ns
  const Instant now = Instant::from_ns(1'000'000);
  EXPECT_EQ((link.due(now, 500) - now).count(), 1500);
  EXPECT_EQ((link.due(now, 500) - now).count(), 2000) << "behind the first";
  EXPECT_EQ((link.due(now, 1) - now).count(), 2010) << "a small one takes the gap";
  const Instant later = Instant::from_ns(2'000'000);
  EXPECT_EQ((link.due(later, 1) - later).count(), 1010) << "the link was free again";
}

TEST(LinkModel, HoldsCompletionsBackInRealTime) {
  PassivePair pair = PassivePair::create("?latency_ns=3000000");
  const SharedMemory memory = SharedMemory::create(4096);
  Region region = must(pair.target->register_memory({.memory = memory.bytes(), .backing = memory.backing()}));
  std::byte buffer[8];
  const LocalPiece piece = LocalPiece::of(std::span(buffer));
  ASSERT_TRUE(pair.endpoint->read(piece, region.token().at(0), within()).wait());
  const Instant start = os::SteadyClock::read();
  const WorkRequest request{.op = Op::kRead, .local = {&piece, 1}, .remote = region.token().at(0)};
  ASSERT_TRUE(pair.endpoint->post({&request, 1}));
  Completion done;
  EXPECT_EQ(pair.queue->poll({&done, 1}), 0u) << "not before its time";
  while (pair.queue->poll({&done, 1}) == 0) ASSERT_TRUE(pair.queue->wait(within()));
  EXPECT_TRUE(done.ok());
  EXPECT_GE((os::SteadyClock::read() - start).count(), 3'000'000);
}

}  // namespace
}  // namespace yonder::fabric::shm
