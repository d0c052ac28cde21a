#pragma once
// Scratch: buffers for copies that are looked at before they are handed out.
//
// Calls of one session overlap (coroutines, batches), so each has its own; a few
// are kept for the next calls, large ones are not.
//
// Concurrency: the session's thread. Lifetime: the pool outlives its buffers.

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace yonder::client::internal {

class ScratchPool;

// A buffer; empty if nothing was taken. Move-only.
class Scratch {
 public:
  Scratch() = default;
  Scratch(Scratch&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)),
        memory_(std::move(other.memory_)),
        capacity_(std::exchange(other.capacity_, 0)),
        size_(std::exchange(other.size_, 0)) {}
  Scratch& operator=(Scratch&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(memory_, other.memory_);
    std::swap(capacity_, other.capacity_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Scratch();

  std::span<std::byte> bytes() const { return {memory_.get(), size_}; }

 private:
  friend class ScratchPool;
  ScratchPool* pool_ = nullptr;
  std::unique_ptr<std::byte[]> memory_;
  std::size_t capacity_ = 0;
  std::size_t size_ = 0;
};

class ScratchPool {
 public:
  // A buffer of `bytes`, with whatever was in it. Aligned for words.
  Scratch take(std::size_t bytes) {
    Scratch out;
    if (!kept_.empty() && bytes <= kKeptBytes) {
      out.memory_ = std::move(kept_.back());
      kept_.pop_back();
      out.capacity_ = kKeptBytes;
    } else {
      out.capacity_ = bytes <= kKeptBytes ? kKeptBytes : bytes;
      out.memory_ = std::make_unique_for_overwrite<std::byte[]>(out.capacity_);
    }
    out.pool_ = this;
    out.size_ = bytes;
    return out;
  }

 private:
  friend class Scratch;
  static constexpr std::size_t kKeptBytes = 32 * 1024;
  static constexpr std::size_t kMaxKept = 64;
  std::vector<std::unique_ptr<std::byte[]>> kept_;
};

inline Scratch::~Scratch() {
  if (pool_ != nullptr && capacity_ == ScratchPool::kKeptBytes &&
      pool_->kept_.size() < ScratchPool::kMaxKept) {
    pool_->kept_.push_back(std::move(memory_));
  }
}

}  // namespace yonder::client::internal
