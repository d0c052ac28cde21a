#include "yonder/client/suite/bed.h"
#include "yonder/testing/patience.h"

#include "yonder/testing/seed.h"

namespace yonder::client::suite {

void ObjectSuite::SetUp() {
  place_ = GetParam().make();
  ASSERT_NE(place_, nullptr);
  options.ports = {{.fabric = &place_->server_fabric(), .address = place_->listen_address()}};
  options.heap.node = node::NodeId(7);
  options.heap.limit = Bytes(64 << 20);
  // The smallest: registering it with a NIC takes all of its memory.
  options.heap.superblock = Bytes(std::uint64_t{66} << 20);
  options.heap.seed = testing::test_seed() | 1;
  options.validator = GetParam().validator;
  options.heap.remap = GetParam().remap;
  options.mapping = GetParam().mapping;
  options.compaction.automatic = false;  // Tests say when.
  options.max_connections = 64;
  options.stop_timeout = testing::kPatience;
  options.heap.correction = GetParam().correction;
  // Two owners, if owners are asked: one of them has something to ask.
  options.pollers = is_virtual() ? 0 : GetParam().correction == node::Correction::kOwner ? 2 : 1;
  if (!is_virtual()) return;
  auto queue = place_->client_fabric().create_completion_queue({});
  ASSERT_TRUE(queue) << queue.error();
  queue_ = *std::move(queue);
  scheduler_ = std::make_unique<fabric::Scheduler>(*queue_);
}

void ObjectSuite::TearDown() {
  if (server_ != nullptr && is_virtual()) {
    server_->begin_stop();
    EXPECT_TRUE(scheduler_->run(Deadline::after(place_->client_fabric().clock(), testing::kPatience)));
  }
  if (server_ != nullptr && server_->stopped()) {
    for (std::size_t i = 0; i < server_->heap().classes().count(); ++i)
      server_->heap().compactor().stop(static_cast<std::uint8_t>(i));
    server_->heap().check_invariants();
  }
  server_.reset();
  scheduler_.reset();
  queue_.reset();
  place_.reset();
}

bool ObjectSuite::is_virtual() const { return place_->server_fabric().capabilities().virtual_time; }

void ObjectSuite::serve() {
  auto server = node::Server::create(options);
  ASSERT_TRUE(server) << server.error();
  server_ = *std::move(server);
  if (is_virtual()) scheduler_->spawn(server_->serve(*scheduler_));
}

void ObjectSuite::restart() {
  const std::string address = server_->address();
  if (is_virtual()) {
    server_->begin_stop();
    EXPECT_TRUE(scheduler_->run(Deadline::after(place_->client_fabric().clock(), testing::kPatience)));
  }
  server_.reset();
  options.ports[0].address = address;
  serve();
}

std::unique_ptr<Session> ObjectSuite::connect(SessionOptions session) {
  session.address = server_->address();
  // A test that means its timeout sets another than the default.
  if (session.timeout == SessionOptions().timeout) session.timeout = testing::kPatience;
  session.connect_timeout = testing::kPatience;
  session.use_windows = GetParam().use_windows;
  session.queue = queue_.get();
  session.scheduler = scheduler_.get();
  auto connected = Session::connect(place_->client_fabric(), session);
  EXPECT_TRUE(connected) << connected.error();
  return connected ? *std::move(connected) : nullptr;
}

std::vector<ObjectPtr> ObjectSuite::thin_out(Session& session, std::size_t count, std::uint32_t bytes,
                                             std::size_t keep) {
  std::vector<AllocItem> items(count, AllocItem{.bytes = bytes});
  session.alloc_many(items);
  std::vector<ObjectPtr> kept;
  std::vector<FreeItem> gone;
  for (std::size_t i = 0; i < items.size(); ++i) {
    EXPECT_TRUE(items[i].result) << items[i].result.error();
    if (!items[i].result) continue;
    if (i % keep == 0) {
      kept.push_back(*items[i].result);
    } else {
      gone.push_back({.object = *items[i].result});
    }
  }
  session.free_many(gone);
  for (const FreeItem& item : gone) EXPECT_TRUE(item.result) << item.result.error();
  return kept;
}

}  // namespace yonder::client::suite
