#pragma once
// The fabric and the listener of the tcp provider: what ties the parts together.
//
// Concurrency and lifetime: as Fabric and Listener.

#include <atomic>
#include <cstdint>
#include <memory>

#include "yonder/base/log.h"
#include "yonder/fabric/fabric.h"
#include "yonder/fabric/tcp/internal/acceptor.h"
#include "yonder/fabric/tcp/internal/region_table.h"
#include "yonder/fabric/tcp/internal/service.h"
#include "yonder/fabric/tcp/tcp.h"
#include "yonder/os/steady_clock.h"

namespace yonder::fabric::tcp {

class TcpFabric final : public Fabric {
 public:
  // `options.seed` is set by now.
  TcpFabric(std::unique_ptr<Service> service, std::uint64_t process, const Options& options)
      : process_(process), options_(options), service_(std::move(service)) {}

  const Capabilities& capabilities() const override;
  const Clock& clock() const override { return clock_; }
  Result<Region> register_memory(const RegisterOptions& options) override { return regions_.add(options); }
  Result<std::unique_ptr<CompletionQueue>> create_completion_queue(
      const CompletionQueueOptions& options) override;
  Result<std::unique_ptr<ReceiveQueue>> create_receive_queue(const ReceiveQueueOptions& options) override;
  Result<std::unique_ptr<Listener>> listen(const ListenOptions& options) override;
  Result<std::unique_ptr<Endpoint>> connect(const ConnectOptions& options, CompletionQueue& queue) override;
  void raise_epoch(Epoch epoch) override;

  TargetContext target_context() const {
    return {.regions = regions_, .epoch = epoch_, .stall_timeout = options_.stall_timeout};
  }
  Service& service() { return *service_; }

 private:
  EndpointId next_endpoint_id() { return EndpointId{next_endpoint_.fetch_add(1, std::memory_order_relaxed)}; }
  Acceptor::Context acceptor_context();
  // What peers cause is logged, once a second at most.
  void report(const char* what, const Error& why);

  os::SteadyClock clock_;
  RegionTable regions_;
  std::atomic<std::uint64_t> epoch_{0};
  std::atomic<std::uint64_t> next_endpoint_{1};
  const std::uint64_t process_;
  const Options options_;
  LogRateLimit report_limit_{clock_, std::chrono::seconds(1)};
  const std::unique_ptr<Service> service_;  // Last: its thread uses all of the above until it has stopped.
};

class TcpListener final : public Listener {
 public:
  TcpListener(TcpFabric& fabric, std::shared_ptr<Acceptor> acceptor, std::string address);
  ~TcpListener() override { TcpListener::close(); }

  std::string address() const override { return address_; }
  Result<std::unique_ptr<Endpoint>> accept(Deadline deadline) override;
  std::size_t connection_count() const override { return acceptor_->connection_count(); }
  void close() override;

 private:
  TcpFabric& fabric_;
  const std::shared_ptr<Acceptor> acceptor_;
  const std::string address_;
  Service::ErrandId errand_;
};

}  // namespace yonder::fabric::tcp
