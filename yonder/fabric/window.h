#pragma once
// A window: a region of the peer that is mapped here, to be looked at in place.
//
// A request moves bytes whose place and length are known. A reader that must look
// at one word to know where the next one is (a table, then a header, then an
// object) pays for a request and a completion at each step. Where the provider
// copies the bytes with our own processor anyway (shm), it can give a window
// instead, and the steps are loads.
//
//   if (std::optional<Window> window = endpoint.window(token.key)) {
//     bool looked = window->look([&](const std::byte* base) { … load from base … });
//   }
//
// Revocation holds as for requests (region.h): look() announces itself in the
// connection's hazard word before it touches the memory, so that the owner waits
// for it, and says false if the region was taken back or rebound meanwhile: what
// was seen then does not count. The owner and others change the bytes at the same
// time: E5 of endpoint.h.
//
// Concurrency: the thread that uses the endpoint's completion queue. look() must
// not be nested, nor post, poll or wait inside.
// Lifetime: a value; must not be used after its endpoint is gone. A window ends
// when its connection does or the region changes: look() then returns false for
// ever, a request finds out what became of the region, and a new window can be had.

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace yonder::fabric {

class Window {
 public:
  // What a provider fills in: the hazard protocol of shm/internal/region_table.h.
  struct Parts {
    const std::byte* base = nullptr;
    std::uint64_t length = 0;
    const std::atomic<std::uint64_t>* word = nullptr;  // the region's state at its owner
    std::uint64_t state = 0;                           // what it must be
    std::atomic<std::uint64_t>* hazard = nullptr;      // ours, which the owner looks at
    std::uint64_t hazard_value = 0;
    const std::uint64_t* mapping_epoch = nullptr;  // changes before the mapping goes
    std::uint64_t expected_epoch = 0;
    bool fence = false;  // the owner has no membarrier
  };

  Window() = default;  // Ended.
  explicit Window(const Parts& parts) : parts_(parts) {}

  std::uint64_t length() const { return parts_.length; }
  // The mapping is there. The region may have been revoked all the same.
  bool is_mapped() const {
    return parts_.mapping_epoch != nullptr && *parts_.mapping_epoch == parts_.expected_epoch;
  }

  // A hint that the line at `offset` will be looked at. Any offset will do.
  void prefetch(std::uint64_t offset) const {
    __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(parts_.base) + offset));
    // To gcc a function that only prefetches has no effect, and it drops the calls.
    asm volatile("");
  }

  // The aligned 8-byte word at `offset`, as it was at a moment when the region was
  // ours to read. False: it does not count. Needs no announcement (R1): one load is
  // before the owner's change or after it, and the file stays as long as it was.
  // Requires offset + 8 ≤ length(), and length() is 0 for a window that never was.
  bool load_word(std::uint64_t offset, std::uint64_t& word) const {
    if (!is_mapped()) [[unlikely]]
      return false;
    using Word = std::uint64_t __attribute__((may_alias));
    // acquire: the check comes after; also what the word leads to.
    word = __atomic_load_n(reinterpret_cast<const Word*>(parts_.base + offset), __ATOMIC_ACQUIRE);
    return parts_.word->load(std::memory_order_relaxed) == parts_.state;  // R5
  }

  // Calls see(base) with the region's first byte. False: nothing that was seen
  // counts; `see` may not have been called.
  template <typename See>
  bool look(See&& see) const {
    if (!is_mapped()) [[unlikely]]
      return false;
    parts_.hazard->store(parts_.hazard_value, std::memory_order_relaxed);  // R1
    if (parts_.fence) [[unlikely]] {                                       // R2
      std::atomic_thread_fence(std::memory_order_seq_cst);
    } else {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    }
    // acquire: R3; nothing of the region is loaded before.
    bool valid = parts_.word->load(std::memory_order_acquire) == parts_.state;
    if (valid) [[likely]] {
      see(parts_.base);
      // R5. acquire fence: what was loaded was loaded before this.
      std::atomic_thread_fence(std::memory_order_acquire);
      valid = parts_.word->load(std::memory_order_relaxed) == parts_.state;
    }
    // release: R6 pairs with the owner's acquire; the look is over.
    parts_.hazard->store(0, std::memory_order_release);
    return valid;
  }

 private:
  Parts parts_;
};

}  // namespace yonder::fabric
