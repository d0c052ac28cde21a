#pragma once
// Registered memory for local buffers that are not registered.
//
// A NIC can only move data between registered pages. Where the caller's buffer
// is not registered the bytes pass through a block of this pool, at the price of
// one copy. Blocks come in powers of two from 256 bytes to 1 MiB; each size is
// carved from slabs of 1 MiB that are registered once and never given back, so
// the steady state neither allocates nor registers.
//
// Concurrency: any thread (a lock; the registered path never comes here).
// Lifetime: all blocks are back before the pool goes (checked).

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/fabric/verbs/internal/device.h"
#include "yonder/os/mapping.h"

namespace yonder::fabric::verbs {

// Bytes the NIC may use. `lkey` goes with them into a scatter-gather entry.
struct Block {
  std::byte* data = nullptr;
  std::uint32_t lkey = 0;
  std::uint8_t size_class = 0;

  explicit operator bool() const { return data != nullptr; }
};

class BouncePool {
 public:
  static constexpr std::size_t kMinBytes = 256;
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 20;

  BouncePool(std::shared_ptr<Device> device, std::size_t limit_bytes);
  ~BouncePool();
  BouncePool(const BouncePool&) = delete;
  BouncePool& operator=(const BouncePool&) = delete;

  // Requires bytes <= kMaxBytes (checked). kResourceExhausted when the pool may
  // not grow any more; kOutOfMemory and kResourceExhausted from registration.
  Result<Block> take(std::size_t bytes);
  void give(Block block);

 private:
  static constexpr std::size_t kClasses = 13;  // 256 B × 2^12 = 1 MiB
  static_assert(kMinBytes << (kClasses - 1) == kMaxBytes);

  struct Slab {
    os::Mapping memory;
    ibv_mr* registration;
  };
  Result<void> grow(std::size_t size_class);

  const std::shared_ptr<Device> device_;
  const std::size_t max_slabs_;
  std::mutex mutex_;
  std::array<std::vector<Block>, kClasses> free_;  // guarded by mutex_
  std::vector<Slab> slabs_;                        // guarded by mutex_
  std::size_t taken_ = 0;                          // guarded by mutex_
};

// Registers local memory for the NIC; RLIMIT_MEMLOCK and exhausted devices give
// kResourceExhausted with a message that says so.
Result<ibv_mr*> register_with_nic(const Device& device, std::byte* data, std::size_t bytes,
                                  std::uint64_t address, unsigned access);

}  // namespace yonder::fabric::verbs
