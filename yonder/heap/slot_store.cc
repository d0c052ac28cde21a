#include "yonder/heap/slot_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "yonder/base/secure_random.h"
#include "yonder/fabric/open/open.h"

namespace yonder::heap {
namespace {

constexpr std::uint32_t kLaneDepth = 128;
// So many reads ahead are described to the endpoint at a time.
constexpr std::size_t kPostAtOnce = 32;
// Room for the pieces of a call, made at the beginning; a longer one makes more.
constexpr std::size_t kPiecesAtOnce = 1024;

Result<std::string> random_name(const char* kind) {
  YONDER_TRY(random, secure_random_u64());
  return fmt::format("{}-{:016x}", kind, random);
}

// Where to start looking for a lane: threads differ, a thread stays with its own.
std::size_t thread_number() {
  static std::atomic<std::size_t> next{0};
  // relaxed: a number that differs is all that is wanted.
  thread_local const std::size_t number = next.fetch_add(1, std::memory_order_relaxed);
  return number;
}

}  // namespace

void AsyncRead::done(Operation& self, const fabric::Completion& completion) {
  auto& read = static_cast<AsyncRead&>(self);
  if (completion.ok()) {
    read.on_done({});
  } else {
    read.on_done(fail(completion.status, "far memory read-ahead"));
  }
}

// ---------------------------------------------------------------- opening

Result<std::unique_ptr<SlotStore>> SlotStore::open(const SlotStoreOptions& options) {
  if (options.bytes.count() == 0 || options.lanes == 0) {
    return fail(ErrorCode::kInvalidArgument, "far memory: no bytes or no lanes");
  }
  std::unique_ptr<SlotStore> store(new SlotStore);
  store->timeout_ = options.timeout;
  YONDER_TRY_VOID(options.node.empty() ? store->open_embedded(options) : store->open_node(options));
  return store;
}

Result<void> SlotStore::open_embedded(const SlotStoreOptions& options) {
  YONDER_TRY(fabric, fabric::open("shm:"));
  fabric_ = std::move(fabric);
  const std::size_t bytes = os::round_up(options.bytes.count(), kPageBytes);
  YONDER_TRY(memfd, os::Memfd::create({.name = "yonder-far", .size = bytes}));
  memfd_ = std::move(memfd);
  YONDER_TRY(memory,
             os::Mapping::of_file(memfd_->fd(), {.bytes = bytes, .protection = os::Protection::kReadWrite}));
  memory_ = std::move(memory);
  is_in_place_ = options.link.empty();
  (void)memory_.prefer_huge_pages(0, bytes);  // Where the kernel has them: it is the faster memory.
  // The model stands for a NIC, whose memory is pinned: no first touch of it is charged to an eviction.
  if (!options.link.empty()) YONDER_TRY_VOID(memory_.populate_write(0, bytes));
  YONDER_TRY(region,
             fabric_->register_memory({.memory = memory_.bytes(),
                                       .rights = fabric::Rights::kRead | fabric::Rights::kWrite,
                                       .backing = fabric::Backing{.fd = memfd_->fd().get(), .offset = 0}}));
  region_ = std::move(region);
  token_ = region_.token();
  YONDER_TRY(name, random_name("far"));
  YONDER_TRY(listener, fabric_->listen({.address = "shm:" + name, .passive = true}));
  listener_ = std::move(listener);
  const std::string address = "shm:" + name + (options.link.empty() ? "" : "?" + options.link);
  for (std::uint32_t i = 0; i < options.lanes; ++i) {
    YONDER_TRY(lane, make_lane());
    YONDER_TRY(endpoint,
               fabric_->connect({.address = address,
                                 .endpoint = {.depth = kLaneDepth, .default_timeout = options.timeout}},
                                *lane->queue));
    lane->own_endpoint = std::move(endpoint);
    YONDER_TRY_VOID(add_lane(std::move(lane)));
  }
  return learn_region();
}

Result<void> SlotStore::learn_region() {
  std::byte byte{};
  for (const auto& lane : lanes_) {
    YONDER_TRY_VOID(move_one(*lane, fabric::Op::kRead, {.local = &byte, .bytes = 1, .offset = 0}));
  }
  return {};
}

Result<void> SlotStore::open_node(const SlotStoreOptions& options) {
  YONDER_TRY(fabric, fabric::open(options.node));
  fabric_ = std::move(fabric);
  for (std::uint32_t i = 0; i < options.lanes; ++i) {
    YONDER_TRY(lane, make_lane());
    YONDER_TRY(session, client::ExtentSession::connect(*fabric_, {.address = options.node,
                                                                  .timeout = options.timeout,
                                                                  .depth = kLaneDepth,
                                                                  .queue = lane->queue.get(),
                                                                  .scheduler = lane->scheduler.get()}));
    lane->session = std::move(session);
    YONDER_TRY_VOID(add_lane(std::move(lane)));
  }
  extent_ = options.name;
  if (extent_.empty()) {
    YONDER_TRY(name, random_name("heap"));
    extent_ = std::move(name);
  }
  const std::size_t bytes = os::round_up(options.bytes.count(), kPageBytes);
  client::ExtentSession& session = *lanes_.front()->session;
  auto token = options.adopt ? session.open_or_create(extent_, bytes) : session.create(extent_, bytes);
  if (!token) return std::unexpected(token.error());
  if (token->length < bytes)
    return fail(ErrorCode::kAlreadyExists, "far memory: a smaller extent of this name");
  token_ = *token;
  return {};
}

Result<std::unique_ptr<SlotStore::Lane>> SlotStore::make_lane() {
  auto lane = std::make_unique<Lane>();
  YONDER_TRY(queue, fabric_->create_completion_queue({}));
  lane->queue = std::move(queue);
  lane->scheduler = std::make_unique<fabric::Scheduler>(*lane->queue);
  return lane;
}

// Requires that the lane has its connection.
Result<void> SlotStore::add_lane(std::unique_ptr<Lane> lane) {
  // Pages are not packed, so that one buffer does.
  YONDER_TRY(pool, remote::BufferPool::create(*fabric_, {.buffers = 1}));
  lane->pool = std::move(pool);
  lane->vectors = std::make_unique<remote::VectorIo>(
      remote::Port(lane->endpoint(), *lane->scheduler, timeout_), *lane->pool);
  lane->pieces.reserve(kPiecesAtOnce);
  lanes_.push_back(std::move(lane));
  return {};
}

void SlotStore::give_back() {
  if (extent_.empty() || lanes_.empty()) return;
  Lane& lane = *lanes_.front();
  lane.lock.lock();
  // The extent is of nobody else; if the node is away it goes with the node.
  (void)lane.session->remove(extent_);
  extent_.clear();
  lane.lock.unlock();
}

SlotStore::~SlotStore() {
  give_back();
  for (const auto& lane : lanes_) {
    lane->endpoint().close();
    lane->queue->poll({});  // Tells the reads that were under way.
  }
  lanes_.clear();
}

Result<void> SlotStore::use_memory(std::span<std::byte> memory) {
  if (!fabric_->capabilities().copies_unregistered) return {};
  YONDER_TRY(region, fabric_->register_memory({.memory = memory, .rights = fabric::Rights::kRead}));
  local_ = std::move(region);
  return {};
}

// ---------------------------------------------------------------- transfers

fabric::LocalPiece SlotStore::piece(const Transfer& transfer) const {
  fabric::LocalPiece piece{.data = transfer.local, .length = transfer.bytes};
  if (local_ && transfer.local >= local_.memory().data() &&
      transfer.local + transfer.bytes <= local_.memory().data() + local_.memory().size()) {
    piece.key = local_.local_key();
  }
  return piece;
}

SlotStore::Lane& SlotStore::take_lane() {
  const std::size_t first = thread_number();
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    Lane& lane = *lanes_[(first + i) % lanes_.size()];
    if (lane.lock.try_lock()) return lane;
  }
  // All are busy, each with operations that have deadlines.
  Lane& lane = *lanes_[first % lanes_.size()];
  lane.lock.lock();
  return lane;
}

Result<void> SlotStore::move(fabric::Op op, std::span<const Transfer> transfers) {
  if (transfers.empty()) return {};
  Lane& lane = take_lane();
  const Result<void> moved =
      transfers.size() == 1 ? move_one(lane, op, transfers.front()) : move_many(lane, op, transfers);
  lane.lock.unlock();
  return moved;
}

// What a dereference waits for: straight to the endpoint.
Result<void> SlotStore::move_one(Lane& lane, fabric::Op op, const Transfer& transfer) {
  const fabric::LocalPiece local = piece(transfer);
  const Deadline deadline = Deadline::after(lane.queue->clock(), timeout_);
  const auto done =
      lane.endpoint()
          .perform(
              {.op = op, .local = {&local, 1}, .remote = token_.at(transfer.offset), .deadline = deadline})
          .wait();
  // Reads ahead may have filled the endpoint; the vector waits for a place.
  if (!done && done.error() == ErrorCode::kQueueFull) return move_many(lane, op, {&transfer, 1});
  return done ? Result<void>() : std::unexpected(done.error());
}

// Neighbours in the store leave as one request that gathers them: pages are too long to be worth a
// copy into one buffer.
Result<void> SlotStore::move_many(Lane& lane, fabric::Op op, std::span<const Transfer> transfers) {
  const Deadline deadline = Deadline::after(lane.queue->clock(), timeout_);
  lane.pieces.clear();
  for (const Transfer& transfer : transfers)
    lane.pieces.push_back({.local = piece(transfer), .remote = token_.at(transfer.offset)});
  return op == fabric::Op::kRead ? lane.vectors->read(lane.pieces, remote::Strategy::kGather, deadline)
                                 : lane.vectors->write(lane.pieces, remote::Strategy::kGather, deadline);
}

Result<void> SlotStore::read_many(std::span<const Transfer> transfers) {
  return move(fabric::Op::kRead, transfers);
}
Result<void> SlotStore::write_many(std::span<const Transfer> transfers) {
  return move(fabric::Op::kWrite, transfers);
}

std::size_t SlotStore::start(std::span<AsyncRead* const> reads) {
  std::array<fabric::LocalPiece, kPostAtOnce> pieces;
  std::array<fabric::WorkRequest, kPostAtOnce> requests;
  const std::size_t count = std::min(reads.size(), kPostAtOnce);
  Lane& lane = take_lane();
  const Deadline deadline = Deadline::after(lane.queue->clock(), timeout_);
  for (std::size_t i = 0; i < count; ++i) {
    pieces[i] = piece(reads[i]->transfer);
    requests[i] = {.op = fabric::Op::kRead,
                   .flags = fabric::RequestFlags::kOperation,
                   .user_data = reinterpret_cast<std::uint64_t>(static_cast<fabric::Operation*>(reads[i])),
                   .local = {&pieces[i], 1},
                   .remote = token_.at(reads[i]->transfer.offset),
                   .deadline = deadline};
  }
  const Result<std::size_t> posted = lane.endpoint().post({requests.data(), count});
  lane.lock.unlock();
  return posted.value_or(0);
}

void SlotStore::poll() {
  for (const auto& lane : lanes_) {
    if (!lane->lock.try_lock()) continue;
    lane->queue->poll({});
    lane->lock.unlock();
  }
}

}  // namespace yonder::heap
