#include "yonder/fabric/shm/shm.h"

#include <algorithm>

#include "yonder/base/check.h"
#include "yonder/base/secure_random.h"
#include "yonder/fabric/shm/internal/completion_queue.h"
#include "yonder/fabric/shm/internal/endpoint.h"
#include "yonder/fabric/shm/internal/fence.h"
#include "yonder/fabric/shm/internal/receive_queue.h"
#include "yonder/fabric/shm/internal/region_table.h"
#include "yonder/fabric/shm/internal/service.h"
#include "yonder/os/steady_clock.h"

namespace yonder::fabric::shm {
namespace {

constexpr std::uint32_t kMaxDepth = 1u << 16;

// One number per process, so that two fabrics of one process know each other.
Result<std::uint64_t> process_number() {
  static const Result<std::uint64_t> number = secure_random_u64();
  return number;
}

Result<void> check_options(const EndpointOptions& options) {
  const bool depths = options.depth != 0 && options.depth <= kMaxDepth && options.receive_depth <= kMaxDepth;
  if (!depths) return fail(ErrorCode::kInvalidArgument, "endpoint options: depth", options.depth);
  if (options.max_message > kMaxMessageBytes)
    return fail(ErrorCode::kInvalidArgument, "endpoint options: max_message is at most 4 MiB",
                options.max_message);
  if (options.default_timeout <= Duration(0))
    return fail(ErrorCode::kInvalidArgument, "endpoint options: default timeout");
  return {};
}

Limits limits_of(const EndpointOptions& options, const Link& link) {
  return {.depth = options.depth,
          .receive_depth = options.receive_depth,
          .max_pieces = kMaxPieces,
          .max_inline = kMaxInline,
          .max_message = link.parts().max_message,
          .max_transfer = kMaxTransferBytes};
}

class ShmRegion final : public RegionImpl {
 public:
  ShmRegion(RegionTable& table, RegionKey key, const RegisterOptions& options)
      : table_(table), key_(key), rights_(options.rights), memory_(options.memory) {}
  ~ShmRegion() override { table_.revoke(key_); }

  RegionToken token() const override {
    return {.key = key_, .length = memory_.size(), .rights = rights_, .atomics = AtomicsBy::kCpu};
  }
  LocalKey local_key() const override { return kUnregistered; }
  std::span<std::byte> memory() const override { return memory_; }
  Result<void> rebind(std::span<std::byte> memory, std::optional<Backing> backing) override {
    YONDER_TRY_VOID(table_.rebind(key_, memory, backing));
    memory_ = memory;
    return {};
  }
  Result<void> prefetch(std::uint64_t, std::uint64_t) override {
    return fail(ErrorCode::kUnsupported, "prefetch region: shm has no on-demand paging");
  }
  void revoke() override { table_.revoke(key_); }

 private:
  RegionTable& table_;
  const RegionKey key_;
  const Rights rights_;
  std::span<std::byte> memory_;
};

class ShmListener final : public Listener {
 public:
  ShmListener(Service& service, std::shared_ptr<Door> door) : service_(service), door_(std::move(door)) {}
  ~ShmListener() override { close(); }

  std::string address() const override { return door_->place.text; }
  std::size_t connection_count() const override {
    const std::lock_guard lock(door_->mutex);
    return door_->connections;
  }
  void close() override { service_.close(door_); }

  Result<std::unique_ptr<Endpoint>> accept(Deadline deadline) override {
    YONDER_TRY(link, next_link(deadline));
    const EndpointOptions& options = door_->options.endpoint;
    EndpointParts parts{.id = link->endpoint(), .options = options, .limits = limits_of(options, *link)};
    parts.model = door_->place.model;
    parts.release = [&service = service_](const std::shared_ptr<Link>& closed) { service.drop(closed); };
    ShmCompletionQueue& queue = queue_of(*link);
    return std::make_unique<ShmEndpoint>(queue, std::move(parts), std::move(link));
  }

 private:
  Result<std::shared_ptr<Link>> next_link(Deadline deadline) {
    std::unique_lock lock(door_->mutex);
    if (door_->options.passive) return fail(ErrorCode::kInvalidArgument, "accept: the listener is passive");
    const Instant now = os::SteadyClock::read();
    const Duration left = deadline.is_default() ? std::chrono::seconds(1) : deadline.instant() - now;
    const auto ready = [this] { return door_->closed || !door_->waiting.empty(); };
    // A day stands for never(): steady_clock would overflow.
    if (!door_->arrived.wait_for(lock, std::min<Duration>(left, std::chrono::hours(24)), ready))
      return fail(ErrorCode::kDeadlineExceeded, "accept");
    if (door_->waiting.empty()) return fail(ErrorCode::kClosed, "accept: the listener is closed");
    std::shared_ptr<Link> link = std::move(door_->waiting.front());
    door_->waiting.pop_front();
    return link;
  }
  ShmCompletionQueue& queue_of(const Link& link) const {
    for (CompletionQueue* queue : door_->options.completion_queues) {
      auto* const candidate = static_cast<ShmCompletionQueue*>(queue);
      if (candidate->line() == link.parts().ours.queue_line) return *candidate;
    }
    check_failed("queue", __FILE__, __LINE__, "a link belongs to a queue of its listener");
  }

  Service& service_;
  const std::shared_ptr<Door> door_;
};

class ShmFabric final : public Fabric {
 public:
  ShmFabric(const Options& options, std::unique_ptr<StateFile> states)
      : fence_(RareFence::create(options.use_membarrier)),
        states_(std::move(states)),
        regions_(*states_, [this](std::uint64_t hazard) { service_->quiesce(hazard); }) {}

  Result<void> start() {
    YONDER_TRY(process, process_number());
    YONDER_TRY(service, Service::create({*states_, fence_, regions_, process}));
    service_ = std::move(service);
    return {};
  }

  const Capabilities& capabilities() const override { return capabilities_; }
  const Clock& clock() const override { return clock_; }
  void raise_epoch(Epoch epoch) override { service_->raise_epoch(epoch); }

  Result<Region> register_memory(const RegisterOptions& options) override {
    YONDER_TRY(key, regions_.add(options));
    return Region(std::make_unique<ShmRegion>(regions_, key, options));
  }
  Result<std::unique_ptr<CompletionQueue>> create_completion_queue(
      const CompletionQueueOptions& options) override {
    return ShmCompletionQueue::create(*states_, fence_, options);
  }
  Result<std::unique_ptr<ReceiveQueue>> create_receive_queue(const ReceiveQueueOptions& options) override {
    return ShmReceiveQueue::create(*states_, options);
  }

  Result<std::unique_ptr<Listener>> listen(const ListenOptions& options) override {
    YONDER_TRY(place, parse_place(options.address, true));
    YONDER_TRY_VOID(check_options(options.endpoint));
    if (!options.passive && options.completion_queues.empty())
      return fail(ErrorCode::kInvalidArgument, "listen: no completion queue");
    if (options.greeting.size() > kMaxGreetingBytes)
      return fail(ErrorCode::kInvalidArgument, "listen: greeting",
                  static_cast<std::int64_t>(options.greeting.size()));
    YONDER_TRY(door, service_->listen(std::move(place), options));
    return std::make_unique<ShmListener>(*service_, std::move(door));
  }

  Result<std::unique_ptr<Endpoint>> connect(const ConnectOptions& options, CompletionQueue& queue) override {
    YONDER_TRY(place, parse_place(options.address, false));
    YONDER_TRY_VOID(check_options(options.endpoint));
    auto& shm_queue = static_cast<ShmCompletionQueue&>(queue);
    const std::uint32_t completions = options.endpoint.depth + options.endpoint.receive_depth;
    YONDER_TRY_VOID(shm_queue.reserve(completions));
    auto connector = std::make_shared<Connector>();
    connector->options = options;
    connector->place = std::move(place);
    connector->endpoint = service_->next_endpoint();
    connector->queue = &shm_queue;
    auto link = service_->connect(connector);
    if (!link) {
      shm_queue.unreserve(completions);
      return std::unexpected(link.error());
    }
    EndpointParts parts{.id = connector->endpoint, .options = options.endpoint};
    parts.limits = limits_of(options.endpoint, **link);
    parts.model = connector->place.model;
    parts.release = [this, connector](const std::shared_ptr<Link>& closed) {
      service_->stop(connector, closed);
    };
    if (options.reconnect) parts.newest = [this, connector] { return service_->newest(*connector); };
    return std::make_unique<ShmEndpoint>(shm_queue, std::move(parts), std::move(*link));
  }

 private:
  static constexpr Capabilities kCapabilities{.provider = "shm",
                                              .atomics = AtomicsBy::kCpu,
                                              .target_cpu_idle = true,
                                              .rebind = true,
                                              .enforces_revocation_on_hostile_peers = false};

  const Capabilities capabilities_ = kCapabilities;
  os::SteadyClock clock_;
  const RareFence fence_;
  const std::unique_ptr<StateFile> states_;
  RegionTable regions_;
  std::unique_ptr<Service> service_;  // Last: its thread uses all of the above.
};

}  // namespace

Result<std::unique_ptr<Fabric>> open(const Options& options) {
  YONDER_TRY(states, StateFile::create());
  auto fabric = std::make_unique<ShmFabric>(options, std::move(states));
  YONDER_TRY_VOID(fabric->start());
  return fabric;
}

}  // namespace yonder::fabric::shm
