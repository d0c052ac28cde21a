#pragma once
// PinSet: the far memory that one system call gets stays resident while it runs.
//
// A range that is not far costs a comparison. A pin that cannot be had (far memory is
// away, or the call wants more than may be local) is passed over: the call then fails with
// EFAULT, as it would with memory that is not there at all.
//
// Concurrency: one thread, on its stack.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>

#include "apps/preload/runtime.h"

namespace yonder::preload {

using Access = heap::PagedSpace::Access;

// Whether the buffer of a system call needs a pin.
inline bool needs_pin(const void* data) { return is_far(data) && !heap::PagedSpace::is_sweeping(); }

class PinSet {
 public:
  static constexpr std::size_t kMost = 20;

  PinSet() = default;
  PinSet(const void* data, std::size_t bytes, Access access) { add(data, bytes, access); }

  void add(const void* data, std::size_t bytes, Access access) {
    if (bytes == 0 || !needs_pin(data) || count_ == kMost) return;
    auto pin = runtime()->space->pin({static_cast<const std::byte*>(data), bytes}, access);
    if (pin) pins_[count_++].emplace(std::move(*pin));
  }
  // A string, as file names are.
  void add(const char* text) {
    if (needs_pin(text)) add(text, std::strlen(text) + 1, Access::kRead);
  }
  // What the kernel writes into, of a known size.
  template <typename T>
  void add_out(T* value) {
    add(value, sizeof(T), Access::kWrite);
  }

 private:
  std::size_t count_ = 0;
  std::array<std::optional<heap::PagedSpace::Pin>, kMost> pins_;
};

// Larger pieces save nothing.
inline constexpr std::size_t kMostBytes = 1 << 20;

// As much of a far buffer as one call may have; all of one that is not far.
inline std::size_t call_bytes(const void* data, std::size_t bytes) {
  return needs_pin(data) ? std::min({bytes, kMostBytes, runtime()->space->max_pin_bytes() / 2}) : bytes;
}

// Never unpinned.
inline void pin_for_ever(const void* data, std::size_t bytes) {
  auto pin = runtime()->space->pin({static_cast<const std::byte*>(data), bytes}, Access::kWrite);
  if (pin) (void)new heap::PagedSpace::Pin(std::move(*pin));
}

}  // namespace yonder::preload
