#pragma once
// A greeter: one client's hand-shake at an acceptor.
//
// Concurrency: an Errand. Lifetime: keeps its acceptor alive.

#include <memory>
#include <optional>

#include "yonder/fabric/tcp/internal/acceptor.h"

namespace yonder::fabric::tcp {

class Greeter final : public Errand {
 public:
  Greeter(std::shared_ptr<Acceptor> acceptor, std::unique_ptr<Transport> transport, Watch& watch,
          Instant deadline);
  ~Greeter() override;

  bool step(Instant now) override;
  const os::Fd* fd() const override { return &handshake_.transport().socket().fd(); }
  std::uint32_t interest() const override;
  Instant next_timer() const override { return deadline_; }

 private:
  Result<void> advance(Instant now);
  void decide();
  void start_lingering(const Error& why, Instant now);
  bool linger();
  Result<void> finish(Instant now);

  const std::shared_ptr<Acceptor> acceptor_;
  Watch& watch_;
  Instant deadline_;
  ListenerHandshake handshake_;
  Transport::Want want_ = Transport::Want::kRead;
  ListenerPreface answer_;
  std::shared_ptr<void> live_;
  bool is_over_ = false;
  bool is_lingering_ = false;
};

}  // namespace yonder::fabric::tcp
