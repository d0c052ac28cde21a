#pragma once
// A region: memory that peers may reach, for as long as this handle lives.
//
//   auto region = fabric.register_memory({.memory = bytes, .rights = Rights::kRead});
//   send_to_peer(region->token());
//   …
//   region->revoke();   // or let it go out of scope
//
// Revocation takes effect before it returns: no access that starts later
// succeeds, and none that started earlier is still touching the memory. rebind()
// puts other memory behind the same key, with the same guarantee for the old
// memory: accesses see either the old or the new memory, never a mixture within
// one request, and none the old one after rebind() returned.
//
// Concurrency: one thread at a time per region; different regions freely. prefetch() and
// pages_remapped() from any thread while nobody rebinds or revokes the region.
// Lifetime: the memory must stay mapped until the region is revoked or gone. The
// fabric outlives its regions.
//
//   state     | access                | rebind      | revoke
//   ----------+-----------------------+-------------+------------------
//   live      | checked, executed     | live        | revoked
//   revoked   | kRegionRevoked, or    | kClosed     | nothing to do
//             | kUnknownKey           |             |

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "yonder/base/id.h"
#include "yonder/base/result.h"
#include "yonder/fabric/types.h"

namespace yonder::fabric {

// The descriptor that backs a region's memory. `shm` needs it to let other
// processes map the memory; without it (or if the region does not cover the
// whole file) foreign accesses are served by the target's service thread, which
// is slower but reaches exactly the registered bytes.
struct Backing {
  int fd = -1;               // borrowed during the call; duplicated if needed
  std::uint64_t offset = 0;  // of the region's first byte in the file
};

struct RegisterOptions {
  std::span<std::byte> memory;
  Rights rights = Rights::kRead;
  std::optional<Backing> backing;
  // Only endpoints of this tenant may use the region; 0: any.
  TenantId tenant{0};
  // verbs, sim: register with on-demand paging, so that the memory may be
  // remapped under the registration. kUnsupported where the device cannot.
  bool on_demand_paging = false;
};

// What a provider implements. Destruction revokes.
class RegionImpl {
 public:
  virtual ~RegionImpl() = default;
  virtual RegionToken token() const = 0;
  virtual LocalKey local_key() const = 0;
  virtual std::span<std::byte> memory() const = 0;
  virtual Result<void> rebind(std::span<std::byte> memory, std::optional<Backing> backing) = 0;
  virtual Result<void> prefetch(std::uint64_t offset, std::uint64_t length) = 0;
  virtual void pages_remapped(std::uint64_t, std::uint64_t) {}
  virtual void revoke() = 0;
};

class Region {
 public:
  Region() = default;
  explicit Region(std::unique_ptr<RegionImpl> impl) : impl_(std::move(impl)) {}

  explicit operator bool() const { return impl_ != nullptr; }

  // What peers need. Unchanged by rebind() of equal length.
  RegionToken token() const { return impl_->token(); }
  // For local buffers inside this region (verbs uses them in place).
  LocalKey local_key() const { return impl_->local_key(); }
  std::span<std::byte> memory() const { return impl_->memory(); }

  // Other memory under the same key (ibv_rereg_mr on verbs; kUnsupported where
  // the device cannot: the region then stays as it was). A local_key() taken
  // before is stale afterwards.
  Result<void> rebind(std::span<std::byte> memory, std::optional<Backing> backing = {}) {
    return impl_->rebind(memory, backing);
  }
  // Asks the device to load translations of an on-demand-paging region
  // (ibv_advise_mr). kUnsupported elsewhere.
  Result<void> prefetch(std::uint64_t offset, std::uint64_t length) {
    return impl_->prefetch(offset, length);
  }
  // Other pages are mapped in this part of an on-demand-paging region now. A NIC has
  // learned that from the kernel already; a simulated one learns it here.
  // Requires that the part lies inside the region (checked).
  void pages_remapped(std::uint64_t offset, std::uint64_t length) { impl_->pages_remapped(offset, length); }

  // Idempotent.
  void revoke() { impl_->revoke(); }

 private:
  std::unique_ptr<RegionImpl> impl_;
};

}  // namespace yonder::fabric
