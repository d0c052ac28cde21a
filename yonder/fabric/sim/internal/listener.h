#pragma once
// A listener of a simulated host: accepted endpoints in a queue, or, if passive,
// only the ends of connections.
//
// Concurrency: one thread. Lifetime: owned by the application.

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "yonder/fabric/fabric.h"
#include "yonder/fabric/sim/internal/endpoint.h"

namespace yonder::fabric::sim {

class ListenerImpl final : public Listener {
 public:
  ListenerImpl(Engine& engine, HostState& host, const ListenOptions& options, std::uint16_t port,
               std::uint32_t nic);
  ~ListenerImpl() override;

  std::string address() const override;
  Result<std::unique_ptr<Endpoint>> accept(Deadline deadline) override;
  std::size_t connection_count() const override;
  void close() override;

  // --- For connections.
  const ListenOptions& options() const { return options_; }
  std::uint32_t nic() const { return nic_; }
  // The endpoint of a new connection, already in the accept queue; null with
  // kResourceExhausted if there is no room for it.
  Result<EndpointImpl*> admit();
  // Gives the newest endpoint of the accept queue its end.
  void add_passive(QueuePair& pair) { passive_.push_back(pair.ref); }
  void remove_passive(QueuePair& pair) { std::erase(passive_, pair.ref); }

 private:
  Engine& engine_;
  HostState& host_;
  const ListenOptions options_;
  const std::uint16_t port_;
  const std::uint32_t nic_;
  bool closed_ = false;
  std::size_t next_queue_ = 0;
  std::deque<std::unique_ptr<EndpointImpl>> waiting_;
  std::vector<Ref> accepted_;  // Endpoints that were handed out; some may be gone.
  std::vector<Ref> passive_;   // Queue pairs.
};

}  // namespace yonder::fabric::sim
