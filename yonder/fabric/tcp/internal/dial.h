#pragma once
// Dial: opens a link to a listener, and opens it again until it succeeds if that
// is wanted.
//
//   attempt: connect → hand-shake → (the listener wants it: a second stream) → Link
//   failure: give up with its error, or wait (exponential backoff with jitter, so
//            that a thousand clients of a restarted node do not come at once)
//
// All addresses of a name are tried in turn, the next one at once.
//
// Concurrency: an Errand. Lifetime: the callback is called at most once, under
// the service's lock, and never after the dial was cancelled.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/fabric/tcp/internal/errand.h"
#include "yonder/fabric/tcp/internal/link.h"
#include "yonder/fabric/tcp/internal/opening.h"
#include "yonder/fabric/tcp/internal/tls.h"
#include "yonder/os/address.h"

namespace yonder::fabric::tcp {

// Where and as whom. Shared by the first connection and all that follow.
struct DialTarget {
  std::vector<os::SocketAddress> addresses;  // Never empty.
  std::string host;
  std::shared_ptr<TlsContext> tls;  // Null: plain.
  Hello hello;
  Duration attempt_timeout{};
  Duration min_backoff{};
  Duration max_backoff{};
};

class Dial final : public Errand {
 public:
  using Done = std::move_only_function<void(Result<Link>)>;
  enum class Again : std::uint8_t { kNo, kUntilItWorks };

  Dial(std::shared_ptr<const DialTarget> target, Again again, std::uint64_t seed, Watch& watch, Done done);

  bool step(Instant now) override;
  const os::Fd* fd() const override;
  std::uint32_t interest() const override;
  Instant next_timer() const override { return timer_; }

 private:
  Result<void> begin(StreamRole role, std::uint64_t ticket);
  // The link when all streams are open; nullopt: not yet.
  Result<std::optional<Link>> advance();
  bool fail_attempt(const Error& why, Instant now);

  const std::shared_ptr<const DialTarget> target_;
  const Again again_;
  Prng prng_;
  Watch& watch_;
  Done done_;

  std::optional<OpenerHandshake> handshake_;  // Empty between attempts.
  Transport::Want want_ = Transport::Want::kWrite;
  std::size_t address_ = 0;
  std::optional<Link> link_;  // The first stream, while the second is opened.
  Duration backoff_;
  Instant timer_ = Instant();  // The attempt's deadline, or when to try again.
};

}  // namespace yonder::fabric::tcp
