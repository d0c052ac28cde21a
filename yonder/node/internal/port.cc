#include "yonder/node/internal/port.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "yonder/node/block_table.h"

namespace yonder::node::internal {

using protocol::NodeDescription;

Port::Port(std::size_t number, const NodeOptions& options, const NodeMetrics& metrics, ExtentStore& extents)
    : fabric_(*options.ports[number].fabric),
      port_(options.ports[number]),
      options_(options),
      metrics_(metrics),
      number_(number),
      extents_(extents),
      stages_(fabric_.clock(), {.max_bytes = options.max_staged_bytes, .timeout = options.stage_timeout}) {}

Port::~Port() { close(); }

Result<NicViews*> Port::add_views() {
  YONDER_TRY(views, NicViews::create(fabric_, options_.mapping));
  views_ = std::move(views);
  return views_.get();
}

Result<void> Port::add_superblock(const Superblock& superblock) {
  YONDER_TRY(region,
             fabric_.register_memory({.memory = superblock.memory,
                                      .rights = fabric::Rights::kRead,
                                      .backing = fabric::Backing{.fd = superblock.memfd.fd().get()}}));
  sync::LockGuard lock(mutex_);
  superblocks_.push_back(std::move(region));
  return {};
}

void Port::drop_last_superblock() {
  sync::LockGuard lock(mutex_);
  superblocks_.pop_back();
}

Result<void> Port::open(Heap& heap, Lanes& lanes, Shortage& shortage) {
  heap_ = &heap;
  lanes_ = &lanes;
  shortage_ = &shortage;
  const BlockTable& table = heap.blocks();
  YONDER_TRY(region, fabric_.register_memory({.memory = table.memory(),
                                              .rights = fabric::Rights::kRead,
                                              .backing = fabric::Backing{.fd = table.memfd().fd().get()}}));
  table_ = std::move(region);
  if (views_ != nullptr) YONDER_TRY_VOID(views_->open(*heap.views(), table));
  YONDER_TRY(options, server_options());
  YONDER_TRY(server, rpc::Server::create(fabric_, options));
  server_ = std::move(server);
  add_handlers();
  return server_->start();
}

Result<rpc::ServerOptions> Port::server_options() const {
  if (options_.max_data < 64 || options_.max_data > protocol::kMaxDataBytes) {
    return fail(ErrorCode::kInvalidArgument, "node: bytes of objects in one message", options_.max_data);
  }
  // The longest head in front of data: a batch with one write.
  const auto head =
      static_cast<std::uint32_t>(sizeof(protocol::ItemHead) + protocol::WriteRequest::kHeadBytes);
  rpc::ServerOptions server;
  server.address = port_.address;
  server.identity = port_.identity;
  // Clients go on with another process only if it has the same objects.
  const std::uint64_t life = heap_->life();
  const auto greeting = std::as_bytes(std::span(&life, 1));
  server.greeting.assign(greeting.begin(), greeting.end());
  server.pollers = options_.pollers;
  // Makes extents: a NIC pins their memory, which takes long.
  server.workers = options_.pollers == 0 ? 0 : 1;
  server.spin = options_.spin;
  // The looks before it are a part of the same patience.
  if (options_.spin < rpc::ServerOptions().spin) server.spin_polls = 1;
  server.max_request = options_.max_data + head;
  // Rounded up: a client says its limit in powers of two.
  server.max_response = std::bit_ceil(std::max<std::uint32_t>(
      options_.max_data + head, static_cast<std::uint32_t>(NodeDescription::kMaxBytes)));
  server.max_connections = options_.max_connections;
  server.stop_timeout = options_.stop_timeout;
  server.registry = options_.registry;
  server.method_name = &protocol::method_name;
  return server;
}

void Port::close() {
  server_.reset();
  table_ = {};
  if (views_ != nullptr) views_->close();
  sync::LockGuard lock(mutex_);
  superblocks_.clear();
}

NodeDescription Port::describe(std::uint64_t first_superblock) const {
  NodeDescription out;
  out.node = options_.heap.node;
  out.life = life_tag(heap_->life());
  out.validator = heap_->classes().validator();
  out.max_data = options_.max_data;
  out.superblock_bytes = heap_->frames().superblock_bytes();
  out.block_table = table_.token();
  if (views_ != nullptr) out.views = views_->describe();
  const SizeClasses& classes = heap_->classes();
  for (std::size_t i = 0; i < classes.count(); ++i) {
    out.classes.push_back({.slot_bytes = classes[i].slot_bytes,
                           .frame_bytes = classes[i].frame_bytes,
                           .slots = classes[i].slots,
                           .block_shift = classes[i].block_shift});
  }
  sync::LockGuard lock(mutex_);
  out.superblock_count = static_cast<std::uint32_t>(superblocks_.size());
  for (std::uint64_t i = first_superblock;
       i < superblocks_.size() && out.superblocks.size() < protocol::kSuperblocksPerAnswer; ++i) {
    out.superblocks.push_back(superblocks_[i].token());
  }
  return out;
}

}  // namespace yonder::node::internal
