#pragma once
// PagingStaging: where pages wait between the store and the address space.
//
// A page may be seen only when it is complete, so it is read into a buffer of ours and put
// in by one system call. A fault cannot allocate, and its stack may be small: there are a
// few buffers, and who finds none free waits for one; each is held for one read.
//
// Concurrency: any thread; usable in a signal handler. Lifetime: outlives its leases.

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <thread>
#include <utility>

#include "yonder/heap/slot_store.h"
#include "yonder/os/mapping.h"

namespace yonder::heap::internal {

class PagingStaging {
 public:
  static constexpr std::size_t kBuffers = 8;

  // Buffers of `pages` pages. Errors: kOutOfMemory.
  static Result<std::unique_ptr<PagingStaging>> create(std::size_t pages) {
    YONDER_TRY(memory, os::Mapping::anonymous({.bytes = kBuffers * pages * kPageBytes}));
    YONDER_TRY(zeros,
               os::Mapping::anonymous({.bytes = pages * kPageBytes, .protection = os::Protection::kRead}));
    return std::unique_ptr<PagingStaging>(new PagingStaging(pages, std::move(memory), std::move(zeros)));
  }

  std::size_t pages() const { return pages_; }
  // As many zeros as a buffer has bytes.
  const std::byte* zeros() const { return zeros_.data(); }

  class Lease {
   public:
    Lease(Lease&&) = delete;
    ~Lease() { taken_.store(false, std::memory_order_release); }
    std::byte* data() const { return data_; }

   private:
    friend class PagingStaging;
    Lease(std::atomic<bool>& taken, std::byte* data) : taken_(taken), data_(data) {}
    std::atomic<bool>& taken_;
    std::byte* data_;
  };

  // Waits for a free one, at most as long as the reads of those who have them take.
  Lease take() {
    for (;;) {
      for (std::size_t i = 0; i < kBuffers; ++i) {
        // acquire: pairs with the lease's end; the last user's bytes are behind us.
        if (!taken_[i].exchange(true, std::memory_order_acquire)) {
          return {taken_[i], memory_.data() + i * pages_ * kPageBytes};
        }
      }
      std::this_thread::yield();
    }
  }

 private:
  PagingStaging(std::size_t pages, os::Mapping memory, os::Mapping zeros)
      : pages_(pages), memory_(std::move(memory)), zeros_(std::move(zeros)) {}

  const std::size_t pages_;
  const os::Mapping memory_;
  const os::Mapping zeros_;
  std::array<std::atomic<bool>, kBuffers> taken_{};
};

}  // namespace yonder::heap::internal
