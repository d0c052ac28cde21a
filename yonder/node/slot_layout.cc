#include "yonder/node/slot_layout.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "yonder/base/check.h"
#include "yonder/node/checksum.h"

namespace yonder::node {
namespace {

std::uint32_t phase_of(const std::byte* slot) {
  return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(slot) % kLineBytes);
}

// Offset in the slot of the first line boundary behind the header. Slots start at
// multiples of 8, so the header never crosses one.
std::uint64_t first_boundary(std::uint32_t phase) { return kLineBytes - phase; }

// Calls `visit(offset in the payload, offset in the slot, length)` for each stretch
// of the first `bytes` of payload between version bytes.
template <typename Visit>
void for_each_stretch(std::uint32_t phase, std::uint64_t bytes, Visit&& visit) {
  std::uint64_t done = 0;
  std::uint64_t at = kHeaderBytes;
  std::uint64_t boundary = first_boundary(phase);
  while (done < bytes) {
    if (at == boundary) {
      ++at;
      boundary += kLineBytes;
    }
    const std::uint64_t length = std::min(bytes - done, boundary - at);
    visit(done, at, length);
    done += length;
    at += length;
  }
}

std::uint32_t checksum_of(HeaderWord word, const std::byte* payload, std::uint64_t bytes) {
  return checksum({payload, bytes}, word.with_state(SlotState::kLive).bits());
}

// An empty span may have no address, which memcpy does not allow.
void copy_in(std::byte* to, std::span<const std::byte> data) {
  if (!data.empty()) sync::shared_copy(to, data.data(), data.size());
}

// memcpy, because the library's algorithms copy std::byte one at a time (g++ 12).
void copy_out(std::span<std::byte> out, const std::byte* from) {
  if (!out.empty()) std::memcpy(out.data(), from, out.size());
}

// A store that a reader of the whole line must not see before the line's other
// stores of the step before, or after those of the step behind: the fences order
// the compiler everywhere and the processor where stores can overtake stores.
void store_line_byte(std::byte* at, std::byte value) {
  std::atomic_thread_fence(std::memory_order_release);
  std::atomic_ref<std::byte>(*at).store(value, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
}

}  // namespace

void SlotLayout::store_first(std::byte* slot, HeaderWord word, std::span<const std::byte> data) const {
  if (validator_ == Validator::kLines) {
    store_lines(slot, word, data, /*zero_rest=*/true);
    return;
  }
  const std::uint64_t start = slot_bytes_ - capacity_;
  sync::shared_zero(slot + start + data.size(), capacity_ - data.size());
  store(slot, word, data);
}

void SlotLayout::store(std::byte* slot, HeaderWord word, std::span<const std::byte> data) const {
  YONDER_DCHECK(data.size() <= capacity_, "the payload fits its slot");
  switch (validator_) {
    case Validator::kReread:
      copy_in(slot + kHeaderBytes, data);
      return;
    case Validator::kChecksum:
      copy_in(slot + kHeaderBytes + kChecksumBytes, data);
      store_checksum(slot, word);
      return;
    case Validator::kLines:
      store_lines(slot, word, data, /*zero_rest=*/false);
      return;
  }
}

void SlotLayout::store_checksum(std::byte* slot, HeaderWord word) const {
  const std::uint32_t sum = checksum_of(word, slot + kHeaderBytes + kChecksumBytes, capacity_);
  sync::shared_copy(slot + kHeaderBytes, &sum, sizeof sum);
}

void SlotLayout::store_lines(std::byte* slot, HeaderWord word, std::span<const std::byte> data,
                             bool zero_rest) const {
  const std::byte version = line_byte(word.version());
  const std::uint64_t boundary = first_boundary(phase_of(slot));
  // The part of `data` that belongs into a stretch of this length, and zeros behind it.
  const auto put = [&](std::byte* to, std::size_t room) {
    const std::size_t length = std::min(data.size(), room);
    copy_in(to, data.first(length));
    if (zero_rest) sync::shared_zero(to + length, room - length);
    data = data.subspan(length);
  };
  // The header's own line is guarded by the header's state.
  put(slot + kHeaderBytes, std::min<std::uint64_t>(boundary, slot_bytes_) - kHeaderBytes);
  for (std::uint64_t at = boundary; at < slot_bytes_; at += kLineBytes) {
    if (!data.empty() || zero_rest) {
      store_line_byte(slot + at, std::byte{0});
      put(slot + at + 1, std::min<std::uint64_t>(kLineBytes, slot_bytes_ - at) - 1);
    }
    store_line_byte(slot + at, version);
  }
}

void SlotLayout::load_other(const std::byte* slot, std::span<std::byte> out) const {
  if (validator_ == Validator::kChecksum) {
    sync::shared_copy(out.data(), slot + kHeaderBytes + kChecksumBytes, out.size());
    return;
  }
  for_each_stretch(phase_of(slot), out.size(),
                   [&](std::uint64_t payload, std::uint64_t at, std::uint64_t length) {
                     sync::shared_copy(out.data() + payload, slot + at, length);
                   });
}

void SlotLayout::move(const std::byte* from, std::byte* to, HeaderWord word) const {
  if (validator_ == Validator::kLines) {
    move_lines(from, to, word);
    return;
  }
  // The checksum moves along: neither identity nor version changes.
  sync::shared_copy(to + kHeaderBytes, from + kHeaderBytes, slot_bytes_ - kHeaderBytes);
}

void SlotLayout::move_lines(const std::byte* from, std::byte* to, HeaderWord word) const {
  // Through a buffer of a few lines: payload offsets of both phases differ.
  const std::byte version = line_byte(word.version());
  std::uint64_t next_boundary = first_boundary(phase_of(to));
  std::uint64_t at = kHeaderBytes;
  const auto put = [&](const std::byte* data, std::uint64_t length) {
    while (length != 0) {
      if (at == next_boundary) {
        ++at;
        next_boundary += kLineBytes;
      }
      const std::uint64_t part = std::min(length, next_boundary - at);
      sync::shared_copy(to + at, data, part);
      at += part;
      data += part;
      length -= part;
    }
  };
  // All lines are "being written" until their bytes are there.
  for (std::uint64_t b = next_boundary; b < slot_bytes_; b += kLineBytes)
    store_line_byte(to + b, std::byte{0});
  for_each_stretch(phase_of(from), capacity_, [&](std::uint64_t, std::uint64_t offset, std::uint64_t length) {
    put(from + offset, length);
  });
  for (std::uint64_t b = first_boundary(phase_of(to)); b < slot_bytes_; b += kLineBytes) {
    store_line_byte(to + b, version);
  }
}

std::uint64_t SlotLayout::raw_bytes(std::uint64_t bytes, std::uint32_t phase) const {
  switch (validator_) {
    case Validator::kReread:
      return kHeaderBytes + bytes;
    case Validator::kChecksum:
      return kHeaderBytes + kChecksumBytes + capacity_;
    case Validator::kLines:
      break;
  }
  std::uint64_t end = kHeaderBytes;
  for_each_stretch(phase, bytes,
                   [&](std::uint64_t, std::uint64_t at, std::uint64_t length) { end = at + length; });
  return end;
}

std::optional<HeaderWord> SlotLayout::decode(std::span<const std::byte> raw, std::uint32_t phase,
                                             std::span<std::byte> out) const {
  if (out.size() > capacity_ || raw.size() < raw_bytes(out.size(), phase)) return std::nullopt;
  std::uint64_t bits = 0;
  std::memcpy(&bits, raw.data(), sizeof bits);
  const HeaderWord word(bits);
  if (!word.is_readable()) return word;
  if (word.is_blank()) {
    std::ranges::fill(out, std::byte{0});
    return word;
  }
  if (validator_ == Validator::kReread) {
    copy_out(out, raw.data() + kHeaderBytes);
    return word;
  }
  if (validator_ == Validator::kChecksum) {
    std::uint32_t sum = 0;
    const std::byte* payload = raw.data() + kHeaderBytes + kChecksumBytes;
    std::memcpy(&sum, raw.data() + kHeaderBytes, sizeof sum);
    const std::uint64_t seed = word.with_state(SlotState::kLive).bits();
    if (sum != checksum_and_copy({payload, capacity_}, seed, out)) return std::nullopt;
    return word;
  }
  bool whole = true;
  for_each_stretch(phase, out.size(), [&](std::uint64_t payload, std::uint64_t at, std::uint64_t length) {
    if (at > kHeaderBytes && raw[at - 1] != line_byte(word.version())) whole = false;
    std::memcpy(out.data() + payload, raw.data() + at, length);
  });
  return whole ? std::optional(word) : std::nullopt;
}

}  // namespace yonder::node
