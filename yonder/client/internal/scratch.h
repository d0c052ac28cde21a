#pragma once
// Scratch: buffers for copies that are looked at before they are handed out.
//
// Calls of one session overlap (coroutines, batches), so each has its own; a few
// are kept for the next calls, large ones are not.
//
// Where the fabric's NIC writes into registered memory only, the first of them are
// registered once, with the session: a read that ends in one of them needs no
// second copy through the fabric's own buffers. When all of those are in use, or
// the session could not register any (locked memory is limited), others do.
//
// Concurrency: the session's thread. Lifetime: the pool outlives its buffers; the
// fabric that registered them outlives the pool.

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "yonder/fabric/fabric.h"
#include "yonder/fabric/region.h"
#include "yonder/fabric/types.h"
#include "yonder/os/mapping.h"

namespace yonder::client::internal {

class ScratchPool;

// A buffer; empty if nothing was taken. Move-only.
class Scratch {
 public:
  Scratch() = default;
  Scratch(Scratch&& other) noexcept { swap(other); }
  Scratch& operator=(Scratch&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Scratch();

  std::span<std::byte> bytes() const { return {memory_.data, size_}; }
  // The whole of it as the local end of a request.
  fabric::LocalPiece piece() const { return fabric::LocalPiece::of(bytes(), memory_.key); }

 private:
  friend class ScratchPool;
  struct Memory {
    std::byte* data = nullptr;
    std::unique_ptr<std::byte[]> owned;            // Null: a part of the pool's registered memory.
    fabric::LocalKey key = fabric::kUnregistered;  // Of that.
  };
  void swap(Scratch& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(memory_, other.memory_);
    std::swap(capacity_, other.capacity_);
    std::swap(size_, other.size_);
  }

  ScratchPool* pool_ = nullptr;
  Memory memory_;
  std::size_t capacity_ = 0;
  std::size_t size_ = 0;
};

class ScratchPool {
 public:
  // Registers some buffers, if the fabric gains by it. Not being able to costs speed
  // and nothing else, so there is no error.
  void register_some(fabric::Fabric& fabric) {
    if (!fabric.capabilities().copies_unregistered) return;
    auto memory = os::Mapping::anonymous({.bytes = kRegistered * kKeptBytes});
    if (!memory) return;
    auto region = fabric.register_memory({.memory = memory->bytes()});
    if (!region) return;
    slab_ = *std::move(memory);
    region_ = *std::move(region);
    for (std::size_t i = kRegistered; i-- > 0;) {
      registered_.push_back({slab_.data() + i * kKeptBytes, nullptr, region_.local_key()});
    }
  }

  // A buffer of `bytes`, with whatever was in it. Aligned for words.
  Scratch take(std::size_t bytes) {
    Scratch out;
    out.pool_ = this;
    out.size_ = bytes;
    out.capacity_ = bytes <= kKeptBytes ? kKeptBytes : bytes;
    if (auto* free = free_for(bytes)) {
      out.memory_ = std::move(free->back());
      free->pop_back();
    } else {
      out.memory_.owned = std::make_unique_for_overwrite<std::byte[]>(out.capacity_);
      out.memory_.data = out.memory_.owned.get();
    }
    return out;
  }

 private:
  friend class Scratch;
  static constexpr std::size_t kKeptBytes = 32 * 1024;
  static constexpr std::size_t kMaxKept = 64;
  // 512 KiB of locked memory per session: a batch of 16 reads.
  static constexpr std::size_t kRegistered = 16;

  // Null: there is none.
  std::vector<Scratch::Memory>* free_for(std::size_t bytes) {
    if (bytes > kKeptBytes) return nullptr;
    if (!registered_.empty()) return &registered_;
    return kept_.empty() ? nullptr : &kept_;
  }
  void give(Scratch::Memory memory, std::size_t capacity) {
    if (memory.owned == nullptr) return registered_.push_back(std::move(memory));
    if (capacity == kKeptBytes && kept_.size() < kMaxKept) kept_.push_back(std::move(memory));
  }

  os::Mapping slab_;
  fabric::Region region_;  // Over slab_; goes first.
  std::vector<Scratch::Memory> registered_;
  std::vector<Scratch::Memory> kept_;
};

inline Scratch::~Scratch() {
  if (pool_ != nullptr) pool_->give(std::move(memory_), capacity_);
}

}  // namespace yonder::client::internal
