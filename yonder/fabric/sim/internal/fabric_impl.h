#pragma once
// The Fabric of one simulated host.
//
// Concurrency: one thread. Lifetime: owned by its Host.

#include <memory>

#include "yonder/fabric/fabric.h"

namespace yonder::fabric::sim {

class Engine;
class HostState;

class FabricImpl final : public Fabric {
 public:
  FabricImpl(Engine& engine, HostState& host);

  const Capabilities& capabilities() const override { return capabilities_; }
  const Clock& clock() const override;
  Result<Region> register_memory(const RegisterOptions& options) override;
  Result<std::unique_ptr<CompletionQueue>> create_completion_queue(
      const CompletionQueueOptions& options) override;
  Result<std::unique_ptr<ReceiveQueue>> create_receive_queue(const ReceiveQueueOptions& options) override;
  Result<std::unique_ptr<Listener>> listen(const ListenOptions& options) override;
  Result<std::unique_ptr<Endpoint>> connect(const ConnectOptions& options, CompletionQueue& queue) override;
  void raise_epoch(Epoch epoch) override;

 private:
  Engine& engine_;
  HostState& host_;
  Capabilities capabilities_;
};

}  // namespace yonder::fabric::sim
