// The registry over rpc: its methods on a server, and a registry that asks one.

#include <algorithm>
#include <utility>

#include "yonder/cache/internal/registry_protocol.h"
#include "yonder/cache/partition_registry.h"
#include "yonder/rpc/client.h"

namespace yonder::cache {

using segment::ProcessId;
using segment::SegmentId;

namespace {

Result<rpc::Empty> empty(Result<void> done) {
  if (!done) return std::unexpected(done.error());
  return rpc::Empty{};
}
Result<protocol::PlacesMessage> places(Result<std::vector<PartitionPlace>> found) {
  if (!found) return std::unexpected(found.error());
  return protocol::PlacesMessage{std::move(*found)};
}

// Calls are seldom, by any thread: one connection with a lock.
class RemoteRegistry final : public Registry {
 public:
  RemoteRegistry(std::unique_ptr<fabric::CompletionQueue> queue, rpc::ClientPtr client)
      : queue_(std::move(queue)), client_(std::move(client)) {}

  Result<std::uint32_t> partitions(Deadline deadline) override {
    YONDER_TRY(answer, call<protocol::Partitions>({}, deadline));
    return answer.count;
  }
  Result<void> announce(ProcessId process, const std::string& server, Deadline deadline) override {
    YONDER_TRY_VOID(call<protocol::Announce>({process, server}, deadline));
    return {};
  }
  Result<void> claim(std::uint32_t partition, SegmentId segment, Deadline deadline) override {
    YONDER_TRY_VOID(call<protocol::Claim>({partition, segment}, deadline));
    return {};
  }
  Result<std::vector<PartitionPlace>> view(std::uint32_t from, Deadline deadline) override {
    YONDER_TRY(answer, call<protocol::View>({from}, deadline));
    return std::move(answer.places);
  }
  Result<std::vector<PartitionPlace>> servers(Deadline deadline) override {
    YONDER_TRY(answer, call<protocol::Servers>({}, deadline));
    return std::move(answer.places);
  }
  Result<std::uint64_t> order(std::uint32_t partition, ProcessId to, Deadline deadline) override {
    YONDER_TRY(answer, call<protocol::Order>({partition, to}, deadline));
    return answer.number;
  }
  Result<std::optional<MoveOrder>> take_order(ProcessId owner, Deadline deadline) override {
    YONDER_TRY(answer, call<protocol::TakeOrder>({owner.value()}, deadline));
    if (answer.orders.empty()) return std::nullopt;
    return answer.orders.front();
  }
  Result<void> finish_order(std::uint64_t id, ErrorCode error, Deadline deadline) override {
    YONDER_TRY_VOID(call<protocol::FinishOrder>({id, error}, deadline));
    return {};
  }
  Result<void> cancel_order(std::uint64_t id, Deadline deadline) override {
    YONDER_TRY_VOID(call<protocol::CancelOrder>({id}, deadline));
    return {};
  }
  Result<void> pause_orders(bool paused, Deadline deadline) override {
    YONDER_TRY_VOID(call<protocol::PauseOrders>({paused ? 1u : 0u}, deadline));
    return {};
  }
  Result<std::vector<MoveOrder>> orders(Deadline deadline) override {
    YONDER_TRY(answer, call<protocol::Orders>({}, deadline));
    return std::move(answer.orders);
  }
  Result<void> report_arrivals(ProcessId target, const std::vector<ArrivalReport>& arrivals,
                               Deadline deadline) override {
    return in_parts(arrivals, [&](std::vector<ArrivalReport> part) {
      return call<protocol::Arrivals>({target, std::move(part)}, deadline);
    });
  }
  Result<void> report(const std::vector<LoadReport>& loads, Deadline deadline) override {
    return in_parts(loads, [&](std::vector<LoadReport> part) {
      return call<protocol::Report>({std::move(part)}, deadline);
    });
  }
  Result<std::vector<PlannedMove>> plan(Deadline deadline) override {
    YONDER_TRY(answer, call<protocol::Plan>({}, deadline));
    return std::move(answer.moves);
  }

 private:
  // Says it in as many messages as it takes.
  template <typename T, typename Say>
  static Result<void> in_parts(const std::vector<T>& all, Say say) {
    for (std::size_t i = 0; i < all.size(); i += protocol::kLoadsPerMessage) {
      const auto first = all.begin() + static_cast<std::ptrdiff_t>(i);
      const std::size_t count = std::min(protocol::kLoadsPerMessage, all.size() - i);
      YONDER_TRY_VOID(say(std::vector<T>(first, first + static_cast<std::ptrdiff_t>(count))));
    }
    return {};
  }
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

void serve_registry(rpc::Server& server, Registry& registry) {
  using rpc::Context;
  server.handle<protocol::Partitions>(
      [&](const Context& context, const rpc::Empty&) -> Result<protocol::CountMessage> {
        YONDER_TRY(count, registry.partitions(context.deadline()));
        return protocol::CountMessage{count};
      });
  server.handle<protocol::Announce>([&](const Context& context, const protocol::AnnounceMessage& request) {
    return empty(registry.announce(request.process, request.server, context.deadline()));
  });
  server.handle<protocol::Claim>([&](const Context& context, const protocol::ClaimMessage& request) {
    return empty(registry.claim(request.partition, request.segment, context.deadline()));
  });
  server.handle<protocol::View>([&](const Context& context, const protocol::CountMessage& request) {
    return places(registry.view(request.count, context.deadline()));
  });
  server.handle<protocol::Servers>([&](const Context& context, const rpc::Empty&) {
    return places(registry.servers(context.deadline()));
  });
  server.handle<protocol::Order>(
      [&](const Context& context, const protocol::OrderRequest& request) -> Result<protocol::NumberMessage> {
        YONDER_TRY(id, registry.order(request.partition, request.to, context.deadline()));
        return protocol::NumberMessage{id};
      });
  server.handle<protocol::TakeOrder>(
      [&](const Context& context, const protocol::NumberMessage& request) -> Result<protocol::OrdersMessage> {
        YONDER_TRY(order, registry.take_order(ProcessId(request.number), context.deadline()));
        protocol::OrdersMessage answer;
        if (order) answer.orders.push_back(*order);
        return answer;
      });
  server.handle<protocol::FinishOrder>([&](const Context& context, const protocol::FinishMessage& request) {
    return empty(registry.finish_order(request.id, request.error, context.deadline()));
  });
  server.handle<protocol::CancelOrder>([&](const Context& context, const protocol::NumberMessage& request) {
    return empty(registry.cancel_order(request.number, context.deadline()));
  });
  server.handle<protocol::PauseOrders>([&](const Context& context, const protocol::NumberMessage& request) {
    return empty(registry.pause_orders(request.number != 0, context.deadline()));
  });
  server.handle<protocol::Orders>(
      [&](const Context& context, const rpc::Empty&) -> Result<protocol::OrdersMessage> {
        YONDER_TRY(listed, registry.orders(context.deadline()));
        return protocol::OrdersMessage{std::move(listed)};
      });
  server.handle<protocol::Report>([&](const Context& context, const protocol::LoadsMessage& request) {
    return empty(registry.report(request.loads, context.deadline()));
  });
  server.handle<protocol::Arrivals>([&](const Context& context, const protocol::ArrivalsMessage& request) {
    return empty(registry.report_arrivals(request.target, request.arrivals, context.deadline()));
  });
  server.handle<protocol::Plan>(
      [&](const Context& context, const rpc::Empty&) -> Result<protocol::PlanMessage> {
        YONDER_TRY(moves, registry.plan(context.deadline()));
        return protocol::PlanMessage{std::move(moves)};
      });
}

Result<std::unique_ptr<Registry>> connect_registry(fabric::Fabric& fabric, const std::string& address) {
  YONDER_TRY(queue, fabric.create_completion_queue({.capacity = 1024}));
  YONDER_TRY(client, rpc::Client::connect(fabric, address, *queue, {}));
  return std::make_unique<RemoteRegistry>(std::move(queue), std::move(client));
}

}  // namespace yonder::cache
