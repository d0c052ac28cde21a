#pragma once
// A registered region of a simulated host, and what its NIC knows about it.
//
// The bytes are real memory of this process. What the NIC reaches is the *view*:
//   pinned, with backing    a second mapping of the file range, made at registration:
//                           when the application remaps its own range, the NIC still
//                           reaches the old physical pages, as a real one does
//   pinned, no backing      the memory itself (a remap cannot be told apart)
//   on-demand paging        the memory itself; pages the application said it
//                           remapped (Host::pages_remapped, prefetch, rebind) fault at
//                           the next access, once
//
//   state          | access                                | rebind          | revoke
//   ---------------+---------------------------------------+-----------------+--------
//   live           | executed                              | re-registering  | gone
//   re-registering | breaks its queue pair (pinned only)   | longer          | gone
//   gone           | kUnknownKey; under way: kRegionRevoked| kClosed         | –
//
// Concurrency: one thread. Lifetime: owned by the application's Region handle.

#include <cstdint>
#include <span>
#include <unordered_map>

#include "yonder/fabric/region.h"
#include "yonder/fabric/sim/internal/pool.h"
#include "yonder/fabric/sim/nic_model.h"

namespace yonder::fabric::sim {

class Engine;
class HostState;

// A private second mapping of a file range, if there is one.
class PhysicalView {
 public:
  PhysicalView() = default;
  PhysicalView(PhysicalView&& other) noexcept;
  PhysicalView& operator=(PhysicalView&& other) noexcept;
  ~PhysicalView();

  // Maps the range behind `memory`. Errors: those of mmap(2).
  static Result<PhysicalView> of(std::span<std::byte> memory, const Backing& backing);
  // The first byte of the range; null if nothing is mapped.
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  void* mapping_ = nullptr;
  std::size_t mapped_bytes_ = 0;
};

class RegionImpl final : public fabric::RegionImpl {
 public:
  RegionImpl(Engine& engine, HostState& host, const RegisterOptions& options, PhysicalView view,
             RegionKey key, std::uint64_t serial, std::uint32_t socket);
  ~RegionImpl() override;

  RegionToken token() const override;
  LocalKey local_key() const override { return {serial_}; }
  std::span<std::byte> memory() const override { return memory_; }
  Result<void> rebind(std::span<std::byte> memory, std::optional<Backing> backing) override;
  Result<void> prefetch(std::uint64_t offset, std::uint64_t length) override;
  void pages_remapped(std::uint64_t offset, std::uint64_t length) override;
  void revoke() override;

  // --- For the NIC.
  Ref ref() const { return ref_; }
  RegionKey key() const { return key_; }
  // Names the region in caches and local keys; never 0, never reused.
  std::uint64_t serial() const { return serial_; }
  std::uint64_t length() const { return memory_.size(); }
  Rights rights() const { return rights_; }
  TenantId tenant() const { return tenant_; }
  std::uint32_t socket() const { return socket_; }
  std::byte* at(std::uint64_t offset) const { return base_ + offset; }
  // The offset of the first byte modulo 8: words are aligned in memory, not in the region.
  std::uint32_t skew() const {
    return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(base_) % 8);
  }
  bool is_reregistering(Ticks now) const { return now < reregistering_until_; }

  std::uint64_t page_of(std::uint64_t offset) const { return offset / page_bytes_; }
  std::uint64_t pages(std::uint64_t offset, std::uint64_t length) const {
    return page_of(offset + length - 1) - page_of(offset) + 1;
  }
  // Loads pages that fault; returns when all of them are there (`now` if they were).
  Ticks page_in(std::uint64_t offset, std::uint64_t length, Ticks now, Ticks fault);
  // The kernel tells the NIC that these pages changed.
  void invalidate(std::uint64_t offset, std::uint64_t length);

 private:
  Engine& engine_;
  HostState& host_;
  std::span<std::byte> memory_;
  PhysicalView view_;
  std::byte* base_;
  const RegionKey key_;
  const std::uint64_t serial_;
  const Rights rights_;
  const TenantId tenant_;
  const bool on_demand_;
  const std::uint32_t socket_;
  const std::uint64_t page_bytes_;
  Ref ref_;
  bool live_ = true;
  Ticks reregistering_until_ = 0;
  // On-demand paging: when each page is there that was not always; kAbsent if it faults.
  // A region may be far larger than the memory ever behind it.
  std::unordered_map<std::uint64_t, Ticks> page_ready_;
};

}  // namespace yonder::fabric::sim
