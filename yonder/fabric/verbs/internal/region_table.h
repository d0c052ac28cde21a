#pragma once
// The regions of a fabric: what the NIC must know, and what it cannot say.
//
// The NIC checks every access by itself, but when it refuses one it does not say
// why. The initiator then asks, and explain() answers from this table.
//
// Local buffers inside a region are used in place: the NIC wants them in the
// region's own address space, which starts near zero (key.h), so a LocalKey
// names a slot of a table of differences:
//
//   bit  63     32 31      0
//       | slot+1  | lkey    |      address for the NIC = pointer + difference[slot]
//
// Concurrency: any thread; local_address() takes no lock.
// Lifetime: outlives its regions (checked).

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/fabric/region.h"
#include "yonder/fabric/verbs/internal/device.h"
#include "yonder/fabric/verbs/internal/key.h"
#include "yonder/fabric/verbs/internal/wire.h"

namespace yonder::fabric::verbs {

// A local buffer as the NIC wants it.
struct NicBuffer {
  std::uint64_t address;
  std::uint32_t lkey;
};

class RegionTable {
 public:
  RegionTable() = default;
  ~RegionTable();
  RegionTable(const RegionTable&) = delete;
  RegionTable& operator=(const RegionTable&) = delete;

  // kResourceExhausted at a million regions.
  Result<std::uint32_t> take_slot();
  void give_slot(std::uint32_t slot);
  void set_difference(std::uint32_t slot, std::uint64_t difference);

  static LocalKey local_key(std::uint32_t slot, std::uint32_t lkey) {
    return LocalKey{std::uint64_t{slot + 1} << 32 | lkey};
  }
  // Requires a key of a live region of this fabric: a stale one gives an address
  // that the NIC refuses locally.
  NicBuffer local_address(const std::byte* data, LocalKey key) const {
    const std::uint32_t slot = static_cast<std::uint32_t>(key.value >> 32) - 1;
    const auto address = reinterpret_cast<std::uint64_t>(data);
    const auto lkey = static_cast<std::uint32_t>(key.value);
    // acquire: pairs with take_slot().
    const Chunk* chunk =
        slot < kChunkSlots * kChunks ? chunks_[slot / kChunkSlots].load(std::memory_order_acquire) : nullptr;
    if (chunk == nullptr) return {.address = address, .lkey = lkey};  // No key of ours: the NIC refuses it.
    // relaxed: see set_difference().
    return {.address = address + (*chunk)[slot % kChunkSlots].load(std::memory_order_relaxed), .lkey = lkey};
  }

  struct Entry {
    std::uint64_t length = 0;
    Rights rights = Rights::kNone;
    RegionKey current_key;  // Differs from the key after a rebind.
  };
  void publish(RegionKey key, const Entry& entry);
  void withdraw(RegionKey key);

  struct Explanation {
    ErrorCode reason;
    RegionKey current_key;
  };
  // Why the NIC refused this access; kOk with the key to use now if the region
  // was rebound.
  Explanation explain(const Access& access) const;

 private:
  static constexpr std::uint32_t kChunkSlots = 1024;
  static constexpr std::uint32_t kChunks = 1024;
  using Chunk = std::array<std::atomic<std::uint64_t>, kChunkSlots>;

  std::array<std::atomic<Chunk*>, kChunks> chunks_{};  // Chunks are added, never moved.

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Chunk>> owned_;           // guarded by mutex_
  std::vector<std::uint32_t> free_slots_;               // guarded by mutex_
  std::uint32_t next_slot_ = 0;                         // guarded by mutex_
  std::unordered_map<std::uint64_t, Entry> published_;  // by RegionKey::value; guarded by mutex_
};

// One registered region.
class VerbsRegion final : public RegionImpl {
 public:
  static Result<std::unique_ptr<RegionImpl>> create(std::shared_ptr<Device> device, RegionTable& table,
                                                    const RegisterOptions& options);
  ~VerbsRegion() override;

  RegionToken token() const override { return token_; }
  LocalKey local_key() const override;
  std::span<std::byte> memory() const override { return memory_; }
  // A new registration, and the old one ended. The key stays: initiators that
  // still use the old registration are refused by the NIC, ask why, and are told
  // the new one. (ibv_rereg_mr would not do: it resets the address of the first
  // byte to the pointer, so offsets from zero would be lost.)
  Result<void> rebind(std::span<std::byte> memory, std::optional<Backing> backing) override;
  Result<void> prefetch(std::uint64_t offset, std::uint64_t length) override;
  void revoke() override;

 private:
  VerbsRegion(std::shared_ptr<Device> device, RegionTable& table, unsigned access, std::uint32_t slot)
      : device_(std::move(device)), table_(table), access_(access), slot_(slot) {}
  Result<ibv_mr*> register_memory(std::span<std::byte> memory);
  void bind(std::span<std::byte> memory, ibv_mr* registration);

  const std::shared_ptr<Device> device_;
  RegionTable& table_;
  const unsigned access_;
  const std::uint32_t slot_;
  RegionToken token_;
  std::span<std::byte> memory_;
  ibv_mr* registration_ = nullptr;  // Null once revoked.
};

}  // namespace yonder::fabric::verbs
