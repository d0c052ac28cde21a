#include "yonder/cache/partition_registry.h"

#include <algorithm>
#include <utility>

#include "yonder/rpc/client.h"
#include "yonder/rpc/message.h"

namespace yonder::cache {

namespace {

using segment::ProcessId;
using segment::SegmentId;

// So many places fit an answer of 8 KiB, addresses of usual length included.
constexpr std::size_t kPlacesPerAnswer = 32;
constexpr std::size_t kLoadsPerMessage = 256;
// A new rate counts for so much, the old one for the rest.
constexpr double kNewRate = 0.5;
constexpr std::size_t kPlaceBytes = 4 + 8 + 8 + 8 + 4 + Registry::kMaxAddress;

struct CountMessage {
  static constexpr std::size_t kMaxBytes = 4;
  std::uint32_t count = 0;
  void encode(rpc::Writer& out) const { out.put(count); }
  void decode(rpc::Reader& in) { count = in.get<std::uint32_t>(); }
};

struct AnnounceMessage {
  static constexpr std::size_t kMaxBytes = 8 + 4 + Registry::kMaxAddress;
  ProcessId process;
  std::string server;
  void encode(rpc::Writer& out) const {
    out.put(process);
    out.string(server, Registry::kMaxAddress);
  }
  void decode(rpc::Reader& in) {
    process = in.get<ProcessId>();
    server = in.string(Registry::kMaxAddress);
  }
};

struct ClaimMessage {
  static constexpr std::size_t kMaxBytes = 12;
  std::uint32_t partition = 0;
  SegmentId segment;
  void encode(rpc::Writer& out) const {
    out.put(partition);
    out.put(segment);
  }
  void decode(rpc::Reader& in) {
    partition = in.get<std::uint32_t>();
    segment = in.get<SegmentId>();
  }
};

struct PlacesMessage {
  static constexpr std::size_t kMaxBytes = 4 + kPlacesPerAnswer * kPlaceBytes;
  std::vector<PartitionPlace> places;
  void encode(rpc::Writer& out) const {
    out.count(places.size(), kPlacesPerAnswer);
    for (const PartitionPlace& place : places) {
      out.put(place.partition);
      out.put(place.segment);
      out.put(place.owner);
      out.put(place.epoch);
      out.string(place.server, Registry::kMaxAddress);
    }
  }
  void decode(rpc::Reader& in) {
    const std::size_t count = in.count(kPlacesPerAnswer, kPlaceBytes - Registry::kMaxAddress);
    for (std::size_t i = 0; i < count && in.ok(); ++i) {
      PartitionPlace place;
      place.partition = in.get<std::uint32_t>();
      place.segment = in.get<SegmentId>();
      place.owner = in.get<ProcessId>();
      place.epoch = in.get<Epoch>();
      place.server = in.string(Registry::kMaxAddress);
      places.push_back(std::move(place));
    }
  }
};

struct OrderRequest {
  static constexpr std::size_t kMaxBytes = 12;
  std::uint32_t partition = 0;
  ProcessId to;
  void encode(rpc::Writer& out) const {
    out.put(partition);
    out.put(to);
  }
  void decode(rpc::Reader& in) {
    partition = in.get<std::uint32_t>();
    to = in.get<ProcessId>();
  }
};

struct NumberMessage {
  static constexpr std::size_t kMaxBytes = 8;
  std::uint64_t number = 0;
  void encode(rpc::Writer& out) const { out.put(number); }
  void decode(rpc::Reader& in) { number = in.get<std::uint64_t>(); }
};

struct FinishMessage {
  static constexpr std::size_t kMaxBytes = 10;
  std::uint64_t id = 0;
  ErrorCode error = ErrorCode::kOk;
  void encode(rpc::Writer& out) const {
    out.put(id);
    out.put(error);
  }
  void decode(rpc::Reader& in) {
    id = in.get<std::uint64_t>();
    error = in.get<ErrorCode>();
  }
};

struct OrdersMessage {
  static constexpr std::size_t kOrderBytes = 8 + 4 + 8 + 8 + 1 + 2;
  static constexpr std::size_t kMaxBytes = 4 + MoveOrders::kKept * kOrderBytes;
  std::vector<MoveOrder> orders;
  void encode(rpc::Writer& out) const {
    out.count(orders.size(), MoveOrders::kKept);
    for (const MoveOrder& order : orders) {
      out.put(order.id);
      out.put(order.partition);
      out.put(order.from);
      out.put(order.to);
      out.put(order.state);
      out.put(order.error);
    }
  }
  void decode(rpc::Reader& in) {
    const std::size_t count = in.count(MoveOrders::kKept, kOrderBytes);
    for (std::size_t i = 0; i < count && in.ok(); ++i) {
      MoveOrder order;
      order.id = in.get<std::uint64_t>();
      order.partition = in.get<std::uint32_t>();
      order.from = in.get<ProcessId>();
      order.to = in.get<ProcessId>();
      order.state = in.get_enum(OrderState::kQueued, OrderState::kCancelled);
      order.error = in.get<ErrorCode>();
      orders.push_back(order);
    }
  }
};

struct LoadsMessage {
  static constexpr std::size_t kMaxBytes = 4 + kLoadsPerMessage * 20;
  std::vector<LoadReport> loads;
  void encode(rpc::Writer& out) const {
    out.count(loads.size(), kLoadsPerMessage);
    for (const LoadReport& load : loads) {
      out.put(load.partition);
      out.put(load.operations);
      out.put(load.bytes);
    }
  }
  void decode(rpc::Reader& in) {
    const std::size_t count = in.count(kLoadsPerMessage, 20);
    for (std::size_t i = 0; i < count && in.ok(); ++i) {
      LoadReport load;
      load.partition = in.get<std::uint32_t>();
      load.operations = in.get<std::uint64_t>();
      load.bytes = in.get<std::uint64_t>();
      loads.push_back(load);
    }
  }
};

struct PlanMessage {
  static constexpr std::size_t kMaxMoves = 64;
  static constexpr std::size_t kMaxBytes = 4 + kMaxMoves * 20;
  std::vector<PlannedMove> moves;
  void encode(rpc::Writer& out) const {
    out.count(moves.size(), kMaxMoves);
    for (const PlannedMove& move : moves) {
      out.put(move.partition);
      out.put(move.from);
      out.put(move.to);
    }
  }
  void decode(rpc::Reader& in) {
    const std::size_t count = in.count(kMaxMoves, 20);
    for (std::size_t i = 0; i < count && in.ok(); ++i) {
      PlannedMove move;
      move.partition = in.get<std::uint32_t>();
      move.from = in.get<ProcessId>();
      move.to = in.get<ProcessId>();
      moves.push_back(move);
    }
  }
};

struct Partitions : rpc::MethodOf<540, rpc::Empty, CountMessage> {};
struct Announce : rpc::MethodOf<541, AnnounceMessage, rpc::Empty> {};
struct Claim : rpc::MethodOf<542, ClaimMessage, rpc::Empty> {};
struct View : rpc::MethodOf<543, CountMessage, PlacesMessage> {};
struct Servers : rpc::MethodOf<544, rpc::Empty, PlacesMessage> {};
struct Order : rpc::MethodOf<545, OrderRequest, NumberMessage> {};
struct TakeOrder : rpc::MethodOf<546, NumberMessage, OrdersMessage> {};
struct FinishOrder : rpc::MethodOf<547, FinishMessage, rpc::Empty> {};
struct CancelOrder : rpc::MethodOf<548, NumberMessage, rpc::Empty> {};
struct PauseOrders : rpc::MethodOf<549, NumberMessage, rpc::Empty> {};
struct Orders : rpc::MethodOf<550, rpc::Empty, OrdersMessage> {};
struct Report : rpc::MethodOf<551, LoadsMessage, rpc::Empty> {};
struct Plan : rpc::MethodOf<552, rpc::Empty, PlanMessage> {};

Result<rpc::Empty> empty(Result<void> done) {
  if (!done) return std::unexpected(done.error());
  return rpc::Empty{};
}
Result<PlacesMessage> places(Result<std::vector<PartitionPlace>> found) {
  if (!found) return std::unexpected(found.error());
  return PlacesMessage{std::move(*found)};
}

// Calls are seldom, by any thread: one connection with a lock.
class RemoteRegistry final : public Registry {
 public:
  RemoteRegistry(std::unique_ptr<fabric::CompletionQueue> queue, rpc::ClientPtr client)
      : queue_(std::move(queue)), client_(std::move(client)) {}

  Result<std::uint32_t> partitions(Deadline deadline) override {
    YONDER_TRY(answer, call<Partitions>({}, deadline));
    return answer.count;
  }
  Result<void> announce(ProcessId process, const std::string& server, Deadline deadline) override {
    YONDER_TRY_VOID(call<Announce>({process, server}, deadline));
    return {};
  }
  Result<void> claim(std::uint32_t partition, SegmentId segment, Deadline deadline) override {
    YONDER_TRY_VOID(call<Claim>({partition, segment}, deadline));
    return {};
  }
  Result<std::vector<PartitionPlace>> view(std::uint32_t from, Deadline deadline) override {
    YONDER_TRY(answer, call<View>({from}, deadline));
    return std::move(answer.places);
  }
  Result<std::vector<PartitionPlace>> servers(Deadline deadline) override {
    YONDER_TRY(answer, call<Servers>({}, deadline));
    return std::move(answer.places);
  }
  Result<std::uint64_t> order(std::uint32_t partition, ProcessId to, Deadline deadline) override {
    YONDER_TRY(answer, call<Order>({partition, to}, deadline));
    return answer.number;
  }
  Result<std::optional<MoveOrder>> take_order(ProcessId owner, Deadline deadline) override {
    YONDER_TRY(answer, call<TakeOrder>({owner.value()}, deadline));
    if (answer.orders.empty()) return std::nullopt;
    return answer.orders.front();
  }
  Result<void> finish_order(std::uint64_t id, ErrorCode error, Deadline deadline) override {
    YONDER_TRY_VOID(call<FinishOrder>({id, error}, deadline));
    return {};
  }
  Result<void> cancel_order(std::uint64_t id, Deadline deadline) override {
    YONDER_TRY_VOID(call<CancelOrder>({id}, deadline));
    return {};
  }
  Result<void> pause_orders(bool paused, Deadline deadline) override {
    YONDER_TRY_VOID(call<PauseOrders>({paused ? 1u : 0u}, deadline));
    return {};
  }
  Result<std::vector<MoveOrder>> orders(Deadline deadline) override {
    YONDER_TRY(answer, call<Orders>({}, deadline));
    return std::move(answer.orders);
  }
  Result<void> report(const std::vector<LoadReport>& loads, Deadline deadline) override {
    for (std::size_t i = 0; i < loads.size(); i += kLoadsPerMessage) {
      const auto first = loads.begin() + static_cast<std::ptrdiff_t>(i);
      const std::size_t count = std::min(kLoadsPerMessage, loads.size() - i);
      YONDER_TRY_VOID(call<Report>({{first, first + static_cast<std::ptrdiff_t>(count)}}, deadline));
    }
    return {};
  }
  Result<std::vector<PlannedMove>> plan(Deadline deadline) override {
    YONDER_TRY(answer, call<Plan>({}, deadline));
    return std::move(answer.moves);
  }

 private:
  template <rpc::Method M>
  Result<typename M::Response> call(typename M::Request request, Deadline deadline) {
    const sync::LockGuard lock(mutex_);
    return client_->call<M>(std::move(request), deadline).wait();
  }

  sync::Mutex mutex_;
  std::unique_ptr<fabric::CompletionQueue> queue_;
  rpc::ClientPtr client_ YONDER_GUARDED_BY(mutex_);
};

}  // namespace

Result<std::uint32_t> PartitionRegistry::partitions(Deadline) {
  const sync::LockGuard lock(mutex_);
  return static_cast<std::uint32_t>(segments_.size());
}

Result<void> PartitionRegistry::announce(ProcessId process, const std::string& server, Deadline deadline) {
  YONDER_TRY_VOID(directory_.address_of(process, deadline));
  if (server.empty() || server.size() > kMaxAddress)
    return fail(ErrorCode::kInvalidArgument, "announce a server: its address has 1 to 128 characters");
  const sync::LockGuard lock(mutex_);
  servers_[process] = server;
  return {};
}

bool PartitionRegistry::is_alive(SegmentId segment, Deadline deadline) {
  const Result<segment::SegmentRecord> record = directory_.find(segment, deadline);
  return record && record->state != segment::SegmentState::kLost;
}

Result<void> PartitionRegistry::claim(std::uint32_t partition, SegmentId segment, Deadline deadline) {
  const sync::LockGuard lock(mutex_);
  if (partition >= segments_.size())
    return fail(ErrorCode::kOutOfBounds, "claim a partition", static_cast<std::int64_t>(partition));
  SegmentId& holder = segments_[partition];
  if (holder != SegmentId(0) && is_alive(holder, deadline))
    return fail(ErrorCode::kAlreadyExists, "claim a partition: it has an owner", partition);
  // Its address space can be used again.
  if (holder != SegmentId(0)) (void)directory_.deallocate(ProcessId(0), holder, deadline);
  holder = segment;
  return {};
}

Result<std::vector<PartitionPlace>> PartitionRegistry::view(std::uint32_t from, Deadline deadline) {
  const sync::LockGuard lock(mutex_);
  std::vector<PartitionPlace> seen;
  for (std::size_t i = from; i < segments_.size() && seen.size() < kPlacesPerAnswer; ++i) {
    PartitionPlace place{.partition = static_cast<std::uint32_t>(i), .segment = segments_[i]};
    const Result<segment::SegmentRecord> record = directory_.find(segments_[i], deadline);
    if (record && record->state != segment::SegmentState::kLost) {
      place.owner = record->owner;
      place.epoch = record->epoch;
      if (const auto server = servers_.find(record->owner); server != servers_.end())
        place.server = server->second;
    }
    seen.push_back(std::move(place));
  }
  return seen;
}

Result<std::vector<PartitionPlace>> PartitionRegistry::servers(Deadline deadline) {
  const sync::LockGuard lock(mutex_);
  std::erase_if(servers_, [&](const auto& entry) {
    const Result<std::string> alive = directory_.address_of(entry.first, deadline);
    return !alive && alive.error() == ErrorCode::kNotFound;
  });
  std::vector<PartitionPlace> listed;
  for (const auto& [process, server] : servers_) {
    if (listed.size() < kPlacesPerAnswer) listed.push_back({.owner = process, .server = server});
  }
  return listed;
}

// ---------------------------------------------------------------- moves and loads

Result<std::uint64_t> PartitionRegistry::order(std::uint32_t partition, ProcessId to, Deadline deadline) {
  ProcessId owner;
  {
    const sync::LockGuard lock(mutex_);
    if (partition >= segments_.size())
      return fail(ErrorCode::kOutOfBounds, "order a move: no such partition", partition);
    if (!servers_.contains(to)) return fail(ErrorCode::kNotFound, "order a move: no such server");
    YONDER_TRY(record, directory_.find(segments_[partition], deadline));
    owner = record.owner;
  }
  if (owner == to) return fail(ErrorCode::kAlreadyExists, "order a move: the partition is there", partition);
  return orders_.add(partition, owner, to);
}

Result<std::optional<MoveOrder>> PartitionRegistry::take_order(ProcessId owner, Deadline) {
  return orders_.take(owner);
}
Result<void> PartitionRegistry::finish_order(std::uint64_t id, ErrorCode error, Deadline) {
  return orders_.finish(id, error);
}
Result<void> PartitionRegistry::cancel_order(std::uint64_t id, Deadline) { return orders_.cancel(id); }
Result<void> PartitionRegistry::pause_orders(bool paused, Deadline) {
  orders_.set_paused(paused);
  return {};
}
Result<std::vector<MoveOrder>> PartitionRegistry::orders(Deadline) { return orders_.list(); }

Result<void> PartitionRegistry::report(const std::vector<LoadReport>& loads, Deadline) {
  const Instant now = clock_.now();
  const sync::LockGuard lock(mutex_);
  for (const LoadReport& report : loads) {
    if (report.partition >= loads_.size()) return fail(ErrorCode::kOutOfBounds, "report a load");
    Load& load = loads_[report.partition];
    const double seconds = static_cast<double>((now - load.at).count()) / 1e9;
    // The counter starts again when the partition has moved.
    if (load.at != Instant() && seconds > 0 && report.operations >= load.last.operations) {
      const double rate = static_cast<double>(report.operations - load.last.operations) / seconds;
      load.operations_per_second = kNewRate * rate + (1 - kNewRate) * load.operations_per_second;
    }
    load.last = report;
    load.at = now;
  }
  return {};
}

Result<std::vector<PlannedMove>> PartitionRegistry::plan(Deadline deadline) {
  YONDER_TRY(listed, servers(deadline));
  std::vector<ProcessId> servers;
  for (const PartitionPlace& place : listed) servers.push_back(place.owner);
  std::sort(servers.begin(), servers.end());
  const sync::LockGuard lock(mutex_);
  std::vector<PartitionLoad> partitions;
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    const Result<segment::SegmentRecord> record = directory_.find(segments_[i], deadline);
    if (!record || record->state == segment::SegmentState::kLost) continue;
    partitions.push_back({.partition = static_cast<std::uint32_t>(i),
                          .owner = record->owner,
                          .load = loads_[i].operations_per_second,
                          .bytes = loads_[i].last.bytes});
  }
  return plan_moves(servers, partitions, {});
}

void serve_registry(rpc::Server& server, Registry& registry) {
  using rpc::Context;
  server.handle<Partitions>([&](const Context& context, const rpc::Empty&) -> Result<CountMessage> {
    YONDER_TRY(count, registry.partitions(context.deadline()));
    return CountMessage{count};
  });
  server.handle<Announce>([&](const Context& context, const AnnounceMessage& request) {
    return empty(registry.announce(request.process, request.server, context.deadline()));
  });
  server.handle<Claim>([&](const Context& context, const ClaimMessage& request) {
    return empty(registry.claim(request.partition, request.segment, context.deadline()));
  });
  server.handle<View>([&](const Context& context, const CountMessage& request) {
    return places(registry.view(request.count, context.deadline()));
  });
  server.handle<Servers>([&](const Context& context, const rpc::Empty&) {
    return places(registry.servers(context.deadline()));
  });
  server.handle<Order>([&](const Context& context, const OrderRequest& request) -> Result<NumberMessage> {
    YONDER_TRY(id, registry.order(request.partition, request.to, context.deadline()));
    return NumberMessage{id};
  });
  server.handle<TakeOrder>(
      [&](const Context& context, const NumberMessage& request) -> Result<OrdersMessage> {
        YONDER_TRY(order, registry.take_order(ProcessId(request.number), context.deadline()));
        OrdersMessage answer;
        if (order) answer.orders.push_back(*order);
        return answer;
      });
  server.handle<FinishOrder>([&](const Context& context, const FinishMessage& request) {
    return empty(registry.finish_order(request.id, request.error, context.deadline()));
  });
  server.handle<CancelOrder>([&](const Context& context, const NumberMessage& request) {
    return empty(registry.cancel_order(request.number, context.deadline()));
  });
  server.handle<PauseOrders>([&](const Context& context, const NumberMessage& request) {
    return empty(registry.pause_orders(request.number != 0, context.deadline()));
  });
  server.handle<Orders>([&](const Context& context, const rpc::Empty&) -> Result<OrdersMessage> {
    YONDER_TRY(listed, registry.orders(context.deadline()));
    return OrdersMessage{std::move(listed)};
  });
  server.handle<Report>([&](const Context& context, const LoadsMessage& request) {
    return empty(registry.report(request.loads, context.deadline()));
  });
  server.handle<Plan>([&](const Context& context, const rpc::Empty&) -> Result<PlanMessage> {
    YONDER_TRY(moves, registry.plan(context.deadline()));
    return PlanMessage{std::move(moves)};
  });
}

Result<std::unique_ptr<Registry>> connect_registry(fabric::Fabric& fabric, const std::string& address) {
  YONDER_TRY(queue, fabric.create_completion_queue({.capacity = 1024}));
  YONDER_TRY(client, rpc::Client::connect(fabric, address, *queue, {}));
  return std::make_unique<RemoteRegistry>(std::move(queue), std::move(client));
}

}  // namespace yonder::cache
