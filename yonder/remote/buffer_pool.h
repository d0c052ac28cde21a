#pragma once
// A pool of registered buffers: where small pieces are gathered before they leave as
// one request, and where they land before they are scattered.
//
// Registered once, when the pool is made, because registering costs microseconds and
// pins memory; bounded, because pinned memory is limited. Who finds the pool empty is
// told so and does without: nobody waits for a buffer, so nobody can wait for ever.
//
// Concurrency: one thread. Lifetime: outlives its buffers; outlived by its fabric.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/fabric/fabric.h"
#include "yonder/fabric/region.h"
#include "yonder/fabric/types.h"
#include "yonder/os/mapping.h"

namespace yonder::remote {

struct BufferPoolOptions {
  std::uint32_t buffers = 32;
  std::uint32_t buffer_bytes = 16 * 1024;
};

class BufferPool;

// One buffer, back in its pool when it goes. Move-only.
class PooledBuffer {
 public:
  PooledBuffer(PooledBuffer&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)), bytes_(other.bytes_) {}
  PooledBuffer& operator=(PooledBuffer&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  inline ~PooledBuffer();

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  friend class BufferPool;
  PooledBuffer(BufferPool& pool, std::span<std::byte> bytes) : pool_(&pool), bytes_(bytes) {}

  BufferPool* pool_;
  std::span<std::byte> bytes_;
};

class BufferPool {
 public:
  // kInvalidArgument for no buffers or empty ones; kOutOfMemory, kResourceExhausted.
  static Result<std::unique_ptr<BufferPool>> create(fabric::Fabric& fabric,
                                                    const BufferPoolOptions& options = {});
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;
  ~BufferPool();

  std::optional<PooledBuffer> try_take() {
    if (free_.empty()) return std::nullopt;
    std::byte* const first = free_.back();
    free_.pop_back();
    return PooledBuffer(*this, {first, buffer_bytes_});
  }

  // Of all its buffers.
  fabric::LocalKey key() const { return key_; }
  std::uint32_t buffer_bytes() const { return buffer_bytes_; }
  std::size_t available() const { return free_.size(); }

 private:
  friend class PooledBuffer;
  BufferPool(os::Mapping memory, fabric::Region region, const BufferPoolOptions& options);

  const std::uint32_t buffer_bytes_;
  const std::uint32_t buffers_;
  os::Mapping memory_;
  fabric::Region region_;  // Over memory_; goes first.
  fabric::LocalKey key_;
  std::vector<std::byte*> free_;  // Never grows beyond its first size: giving back cannot fail.
};

inline PooledBuffer::~PooledBuffer() {
  if (pool_ != nullptr) pool_->free_.push_back(bytes_.data());
}

}  // namespace yonder::remote
