// Which way a NIC follows remapped blocks: what each fabric can do, and what it refuses.
#include "yonder/node/internal/nic_views.h"

#include <gtest/gtest.h>

#include <cstring>

#include "yonder/fabric/shm/shm.h"
#include "yonder/fabric/sim/world.h"
#include "yonder/fabric/tcp/tcp.h"
#include "yonder/node/heap.h"
#include "yonder/node/server.h"

namespace yonder::node {
namespace {

using fabric::sim::NicModel;
using fabric::sim::World;
using internal::NicViews;
using protocol::ViewKind;

fabric::sim::WorldOptions world_with(const NicModel& model) {
  return {.hosts = 2, .host = {.nics = {{.model = model}}}};
}

// A heap whose blocks one fabric's readers follow.
struct Bed {
  Bed(fabric::Fabric& fabric, NicMapping mapping) : nic(NicViews::create(fabric, mapping).value()) {
    all.add(*nic);
    heap = Heap::create(fabric.clock(), {.limit = Bytes(1 << 20),
                                         .classes = {.frame_bytes = 4096},
                                         .remap = Remap::kMmap,
                                         .view_observer = &all})
               .value();
    EXPECT_TRUE(nic->open(*heap->views(), heap->blocks()));
    thread = std::make_unique<HeapThread>(heap->register_thread().value());
  }
  ~Bed() {
    nic->close();
    thread.reset();
  }

  std::unique_ptr<NicViews> nic;
  internal::AllNicViews all;
  std::unique_ptr<Heap> heap;
  std::unique_ptr<HeapThread> thread;
};

ErrorCode refusal(fabric::Fabric& fabric, NicMapping mapping) {
  const auto made = NicViews::create(fabric, mapping);
  return made ? ErrorCode::kOk : made.error().code();
}

TEST(NicViews, AreOneRegionWhereTheDevicePagesOnDemand) {
  World world(world_with(fabric::sim::rdma100g()));
  for (const NicMapping mapping : {NicMapping::kAuto, NicMapping::kOdp, NicMapping::kOdpPrefetch}) {
    const Bed bed(world.host(0).fabric(), mapping);
    EXPECT_EQ(bed.nic->describe().kind, ViewKind::kArena);
    EXPECT_EQ(bed.nic->describe().region.length, bed.heap->views()->memory().size());
    EXPECT_EQ(bed.nic->describe().region.rights, fabric::Rights::kRead);
  }
}

TEST(NicViews, AreOneRegionEachWhereItDoesNot) {
  World world(world_with(fabric::sim::connectx3_40g()));
  fabric::Fabric& fabric = world.host(0).fabric();
  for (const NicMapping mapping : {NicMapping::kAuto, NicMapping::kRereg}) {
    const Bed bed(fabric, mapping);
    EXPECT_EQ(bed.nic->describe().kind, ViewKind::kKeys);
  }
  EXPECT_EQ(refusal(fabric, NicMapping::kOdp), ErrorCode::kUnsupported);
  EXPECT_EQ(refusal(fabric, NicMapping::kOdpPrefetch), ErrorCode::kUnsupported);
}

TEST(NicViews, NeedNoNicOverTcp) {
  const auto tcp = fabric::tcp::open().value();
  const Bed bed(*tcp, NicMapping::kAuto);
  EXPECT_EQ(bed.nic->describe().kind, ViewKind::kArena);
}

TEST(NicViews, AKeyIsThereForAsLongAsItsBlock) {
  World world(world_with(fabric::sim::connectx3_40g()));
  Bed bed(world.host(0).fabric(), NicMapping::kRereg);
  const ObjectPtr object = bed.thread->alloc(3000).value();
  auto queue = world.host(1).fabric().create_completion_queue({}).value();
  auto listener = world.host(0).fabric().listen({.address = "sim://host0:7", .passive = true}).value();
  auto endpoint = world.host(1).fabric().connect({.address = "sim://host0:7"}, *queue).value();
  const auto key = [&] {
    std::uint64_t word = 0;
    const auto piece = fabric::LocalPiece::of(std::as_writable_bytes(std::span(&word, 1)));
    EXPECT_TRUE(endpoint->read(piece, bed.nic->describe().region.at(object.home().value() * 8)).wait());
    return word;
  };
  const std::uint64_t first = key();
  EXPECT_NE(first, 0u);
  std::uint64_t header = 0;
  const auto piece = fabric::LocalPiece::of(std::as_writable_bytes(std::span(&header, 1)));
  ASSERT_TRUE(endpoint->read(piece, {.key = {first}, .offset = 0}).wait());
  EXPECT_TRUE(HeaderWord(header).names(object.home(), object.id()));
  ASSERT_TRUE(bed.thread->free(object));
  bed.heap->reclaim();
  EXPECT_EQ(key(), 0u);
  EXPECT_FALSE(endpoint->read(piece, {.key = {first}, .offset = 0}).wait());
}

NodeOptions remapping_node(fabric::Fabric& fabric, const char* address) {
  NodeOptions options;
  options.ports = {{.fabric = &fabric, .address = address}};
  options.heap.remap = Remap::kMmap;
  return options;
}

TEST(RemappingServer, RefusesReadersThatCouldNotFollow) {
  const auto shm = fabric::shm::open({}).value();
  const auto server = Server::create(remapping_node(*shm, "shm:"));
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error(), ErrorCode::kUnsupported);
  EXPECT_NE(std::strstr(server.error().message(), "table"), nullptr) << "it says what to use instead";
}

TEST(RemappingServer, RefusesWhatTheDeviceCannotDo) {
  World world(world_with(fabric::sim::connectx3_40g()));
  NodeOptions options = remapping_node(world.host(0).fabric(), "sim://host0:0");
  options.pollers = 0;
  options.mapping = NicMapping::kOdp;
  const auto server = Server::create(options);
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error(), ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace yonder::node
