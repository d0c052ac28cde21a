#include "yonder/fabric/sim/internal/fabric_impl.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "yonder/fabric/address.h"
#include "yonder/fabric/sim/internal/endpoint.h"
#include "yonder/fabric/sim/internal/engine.h"
#include "yonder/fabric/sim/internal/listener.h"
#include "yonder/fabric/sim/internal/queue.h"
#include "yonder/fabric/sim/internal/region.h"

namespace yonder::fabric::sim {
namespace {

struct Place {
  std::string host;
  std::uint16_t port = 0;
  std::uint32_t nic = 0;
};

template <typename Number>
bool parse(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

// sim://HOST:PORT[?nic=N]; an empty HOST is the speaker's own.
Result<Place> parse_place(std::string_view text, const HostState& self) {
  YONDER_TRY(address, parse_address(text));
  Place place{.host = self.name(), .nic = self.placement.nic};
  const std::size_t colon = address.place.rfind(':');
  if (address.provider != "sim" || colon == std::string::npos ||
      !parse(std::string_view(address.place).substr(colon + 1), place.port)) {
    return fail(ErrorCode::kAddressInvalid, "address: expected sim://HOST:PORT");
  }
  if (colon > 0) place.host = address.place.substr(0, colon);
  for (const auto& [name, value] : address.options) {
    if (name != "nic" || !parse(value, place.nic)) {
      return fail(ErrorCode::kAddressInvalid, "address: the only option of sim is nic=N");
    }
  }
  return place;
}

// Endpoints of a host use queues of that host.
Result<QueueImpl*> own_queue(CompletionQueue* queue, const HostState& host) {
  auto* const own = dynamic_cast<QueueImpl*>(queue);
  if (own == nullptr || &own->host() != &host) {
    return fail(ErrorCode::kInvalidArgument, "endpoint: the completion queue is of another host or provider");
  }
  return own;
}

Result<void> check_endpoint(const EndpointOptions& options) {
  if (options.receive_queue != nullptr &&
      dynamic_cast<SharedReceiveQueue*>(options.receive_queue) == nullptr) {
    return fail(ErrorCode::kInvalidArgument, "endpoint: the receive queue is of another provider");
  }
  if (options.depth == 0 || options.default_timeout <= Duration::zero()) {
    return fail(ErrorCode::kInvalidArgument, "endpoint: depth and default timeout must be positive");
  }
  return {};
}

}  // namespace

FabricImpl::FabricImpl(Engine& engine, HostState& host) : engine_(engine), host_(host) {
  capabilities_ = {.provider = "sim",
                   .atomics = AtomicsBy::kNic,
                   .target_cpu_idle = true,
                   .rebind = true,
                   .on_demand_paging = host.nic(0).model().on_demand_paging,
                   .virtual_time = true};
}

const Clock& FabricImpl::clock() const { return engine_.clock(); }

Result<Region> FabricImpl::register_memory(const RegisterOptions& options) {
  if (options.memory.empty() || options.rights == Rights::kNone) {
    return fail(ErrorCode::kInvalidArgument, "register memory: no bytes or no rights");
  }
  if (options.on_demand_paging && !capabilities_.on_demand_paging) {
    return fail(ErrorCode::kUnsupported, "register memory: this NIC has no on-demand paging");
  }
  if (!host_.is_up) return fail(ErrorCode::kClosed, "register memory: the host is down");
  PhysicalView view;
  if (options.backing && !options.on_demand_paging) {
    YONDER_TRY(mapped, PhysicalView::of(options.memory, *options.backing));
    view = std::move(mapped);
  }
  return Region(std::make_unique<RegionImpl>(engine_, host_, options, std::move(view),
                                             RegionKey{engine_.random()()}, engine_.next_serial(),
                                             host_.placement.memory_socket));
}

Result<std::unique_ptr<CompletionQueue>> FabricImpl::create_completion_queue(
    const CompletionQueueOptions& options) {
  if (options.capacity == 0) return fail(ErrorCode::kInvalidArgument, "completion queue: no capacity");
  return std::make_unique<QueueImpl>(engine_, host_, options.capacity, host_.placement.socket);
}

Result<std::unique_ptr<ReceiveQueue>> FabricImpl::create_receive_queue(const ReceiveQueueOptions& options) {
  if (options.capacity == 0) return fail(ErrorCode::kInvalidArgument, "receive queue: no capacity");
  return std::make_unique<SharedReceiveQueue>(engine_, options.capacity);
}

Result<std::unique_ptr<Listener>> FabricImpl::listen(const ListenOptions& options) {
  YONDER_TRY(place, parse_place(options.address, host_));
  YONDER_TRY_VOID(check_endpoint(options.endpoint));
  if (place.host != host_.name() || place.nic >= host_.nic_count()) {
    return fail(ErrorCode::kAddressInvalid, "listen: not an address of this host");
  }
  if (options.greeting.size() > kMaxGreetingBytes ||
      (!options.passive && options.completion_queues.empty())) {
    return fail(ErrorCode::kInvalidArgument, "listen: greeting too long, or no completion queue");
  }
  for (CompletionQueue* queue : options.completion_queues) {
    YONDER_TRY_VOID(own_queue(queue, host_));
  }
  if (!host_.is_up) return fail(ErrorCode::kClosed, "listen: the host is down");
  if (place.port == 0) {
    while (host_.listeners.contains(host_.next_port)) ++host_.next_port;
    place.port = host_.next_port++;
  }
  if (host_.listeners.contains(place.port)) return fail(ErrorCode::kAlreadyExists, "listen", place.port);
  return std::make_unique<ListenerImpl>(engine_, host_, options, place.port, place.nic);
}

Result<std::unique_ptr<Endpoint>> FabricImpl::connect(const ConnectOptions& options, CompletionQueue& queue) {
  YONDER_TRY(place, parse_place(options.address, host_));
  YONDER_TRY_VOID(check_endpoint(options.endpoint));
  if (engine_.find_host(place.host) == nullptr)
    return fail(ErrorCode::kConnectionRefused, "connect: unknown host");
  if (!host_.is_up) return fail(ErrorCode::kClosed, "connect: the host is down");
  YONDER_TRY(own, own_queue(&queue, host_));
  if (!own->try_reserve(EndpointImpl::reservation(options.endpoint))) {
    return fail(ErrorCode::kResourceExhausted, "connect: the completion queue has no room", queue.capacity());
  }
  auto endpoint = std::make_unique<EndpointImpl>(engine_, host_, *own, options.endpoint, host_.placement.nic);
  endpoint->dial().emplace(Dial{.options = options, .host = place.host, .port = place.port});
  engine_.connections().dial(*endpoint);
  engine_.run([&] { return !endpoint->dial()->under_way; }, kNever);
  if (!endpoint->dial()->answer) return std::unexpected(endpoint->dial()->answer.error());
  return endpoint;
}

void FabricImpl::raise_epoch(Epoch epoch) { host_.epoch = std::max(host_.epoch, epoch); }

}  // namespace yonder::fabric::sim
