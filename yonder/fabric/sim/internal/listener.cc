#include "yonder/fabric/sim/internal/listener.h"

#include <algorithm>

#include "yonder/fabric/sim/internal/engine.h"
#include "yonder/fabric/sim/internal/queue.h"

namespace yonder::fabric::sim {

ListenerImpl::ListenerImpl(Engine& engine, HostState& host, const ListenOptions& options, std::uint16_t port,
                           std::uint32_t nic)
    : engine_(engine), host_(host), options_(options), port_(port), nic_(nic) {
  host_.listeners[port] = this;
  ++host_.made;
}

ListenerImpl::~ListenerImpl() {
  close();
  --host_.made;
}

std::string ListenerImpl::address() const { return "sim://" + host_.name() + ":" + std::to_string(port_); }

Result<std::unique_ptr<Endpoint>> ListenerImpl::accept(Deadline deadline) {
  if (options_.passive) return fail(ErrorCode::kInvalidArgument, "accept on a passive listener");
  const auto ready = [this] { return closed_ || !waiting_.empty(); };
  const Ticks limit = engine_.limit_of(deadline, std::chrono::seconds(1));
  if (!ready() && limit > engine_.now()) engine_.run(ready, limit);
  if (closed_) return fail(ErrorCode::kClosed, "accept");
  if (waiting_.empty()) return fail(ErrorCode::kDeadlineExceeded, "accept");
  std::unique_ptr<EndpointImpl> endpoint = std::move(waiting_.front());
  waiting_.pop_front();
  accepted_.push_back(endpoint->ref());
  return endpoint;
}

std::size_t ListenerImpl::connection_count() const {
  const auto is_open = [this](Ref ref) {
    const EndpointImpl* const endpoint = engine_.endpoints().find(ref);
    return endpoint != nullptr && endpoint->pair() != nullptr;
  };
  return waiting_.size() + passive_.size() +
         static_cast<std::size_t>(std::ranges::count_if(accepted_, is_open));
}

Result<EndpointImpl*> ListenerImpl::admit() {
  if (connection_count() >= options_.max_connections) {
    return fail(ErrorCode::kResourceExhausted, "accept a connection", options_.max_connections);
  }
  if (options_.passive) return nullptr;
  std::erase_if(accepted_, [this](Ref ref) { return engine_.endpoints().find(ref) == nullptr; });
  auto& queue = static_cast<QueueImpl&>(*options_.completion_queues[next_queue_]);
  if (!queue.try_reserve(EndpointImpl::reservation(options_.endpoint))) {
    return fail(ErrorCode::kResourceExhausted, "accept: the completion queue has no room", queue.capacity());
  }
  next_queue_ = (next_queue_ + 1) % options_.completion_queues.size();
  waiting_.push_back(std::make_unique<EndpointImpl>(engine_, host_, queue, options_.endpoint, nic_));
  return waiting_.back().get();
}

void ListenerImpl::close() {
  if (std::exchange(closed_, true)) return;
  host_.listeners.erase(port_);
  waiting_.clear();
  const std::vector<Ref> passive = std::exchange(passive_, {});
  for (const Ref ref : passive) {
    if (QueuePair* pair = engine_.pairs().find(ref)) {
      pair->listener = nullptr;
      engine_.connections().close(*pair, ErrorCode::kClosed);
    }
  }
}

}  // namespace yonder::fabric::sim
