#include <memory>
#include <utility>

#include "yonder/base/check.h"
#include "yonder/base/secure_random.h"
#include "yonder/fabric/address.h"
#include "yonder/fabric/verbs/internal/completion_queue.h"
#include "yonder/fabric/verbs/internal/core.h"
#include "yonder/fabric/verbs/internal/endpoint.h"
#include "yonder/fabric/verbs/internal/hall.h"
#include "yonder/fabric/verbs/internal/receive_queue.h"
#include "yonder/fabric/verbs/verbs.h"

namespace yonder::fabric::verbs {
namespace {

class VerbsFabric final : public Fabric {
 public:
  explicit VerbsFabric(std::unique_ptr<Core> core) : core_(std::move(core)) {
    capabilities_ = {.provider = "verbs",
                     .atomics = AtomicsBy::kNic,
                     .target_cpu_idle = true,
                     .rebind = true,
                     .on_demand_paging = core_->device->on_demand_paging(),
                     .copies_unregistered = true,
                     .enforces_tenants = false};
  }

  const Capabilities& capabilities() const override { return capabilities_; }
  const Clock& clock() const override { return core_->clock; }

  Result<Region> register_memory(const RegisterOptions& options) override {
    YONDER_TRY(region, VerbsRegion::create(core_->device, core_->regions, options));
    return Region(std::move(region));
  }

  Result<std::unique_ptr<CompletionQueue>> create_completion_queue(
      const CompletionQueueOptions& options) override {
    return VerbsQueue::create(core_->device, options);
  }

  Result<std::unique_ptr<ReceiveQueue>> create_receive_queue(const ReceiveQueueOptions& options) override {
    return VerbsReceiveQueue::create(core_->device, core_->regions, core_->pool, options);
  }

  Result<std::unique_ptr<Listener>> listen(const ListenOptions& options) override {
    YONDER_TRY(address, resolve(options.address, {.for_listening = true}));
    YONDER_TRY(hall, Hall::open(*core_, options, address));
    return std::make_unique<VerbsListener>(*core_, std::move(hall));
  }

  Result<std::unique_ptr<Endpoint>> connect(const ConnectOptions& options, CompletionQueue& queue) override {
    YONDER_TRY(address, resolve(options.address, {}));
    return VerbsEndpoint::connect(*core_, options, address, static_cast<VerbsQueue&>(queue));
  }

  void raise_epoch(Epoch epoch) override {
    std::uint64_t current = core_->epoch.load(std::memory_order_relaxed);
    // release: pairs with Hall::check_epoch().
    while (current < epoch.value() &&
           !core_->epoch.compare_exchange_weak(current, epoch.value(), std::memory_order_release)) {
    }
  }

 private:
  Result<os::SocketAddress> resolve(const std::string& text, os::SocketAddress::ResolveOptions options) {
    YONDER_TRY(address, parse_address(text));
    const std::string device = core_->device->library().get_device_name(core_->device->context()->device);
    for (const auto& [name, value] : address.options) {
      if (name != "device" || value != device) {
        return fail(ErrorCode::kAddressInvalid, "verbs address: an option, or a device that is not open");
      }
    }
    if (address.provider != "verbs") {
      return fail(ErrorCode::kAddressInvalid, "verbs address: it names another provider");
    }
    // A connection manager that listens on all addresses could not say on which
    // device it does: "*" means this device's address.
    std::string place = address.place;
    if (options.for_listening && place.starts_with("*:")) place.replace(0, 1, core_->device->ip());
    YONDER_TRY(found, os::SocketAddress::resolve(place, options));
    if (!options.for_listening && found.front().port() == 0) {
      return fail(ErrorCode::kAddressInvalid, "verbs address: nobody can be reached at port 0");
    }
    return found.front();
  }

  const std::unique_ptr<Core> core_;
  Capabilities capabilities_;
};

}  // namespace

Result<std::unique_ptr<Fabric>> open(const Options& options) {
  YONDER_TRY(device, Device::open(options.device));
  YONDER_TRY(process, secure_random_u64());
  auto core = std::make_unique<Core>(std::move(device), options.bounce_bytes, process);
  YONDER_TRY(service, CmService::start(core->device));
  core->service = std::move(service);
  return std::make_unique<VerbsFabric>(std::move(core));
}

}  // namespace yonder::fabric::verbs
