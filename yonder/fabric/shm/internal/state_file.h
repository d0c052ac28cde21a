#pragma once
// The state file: what a fabric tells all its peers without being asked.
//
// A memfd that the owner writes and every peer maps read-only (sealed: nobody
// can get a new writable mapping, not even with our uid). Two parts:
//
//   0       | 1,024 notice lines, 64 bytes: who sleeps, who has receive buffers
//   64 KiB  | 2^20 region words, 8 bytes
//
// A region word is the state of one slot of the region table. Odd: live; even:
// dead. It only grows (by 1 or 2 at each registration, rebind, revocation), so a
// value is never seen again and a peer that remembers "live at 7" can tell by
// one load and one comparison whether all it knows still holds.
//
// Concurrency: words and lines are atomics; allocation of lines takes a lock.
// Lifetime: the fabric's; peers keep the memory alive by their own mappings.

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "yonder/base/result.h"
#include "yonder/os/fd.h"
#include "yonder/os/mapping.h"

namespace yonder::fabric::shm {

struct alignas(64) NoticeLine {
  // A completion queue or a service thread: 1 while it sleeps or is about to.
  std::atomic<std::uint32_t> sleeping;
  // A shared receive queue: how many buffers it holds.
  std::atomic<std::uint32_t> available;
};
static_assert(sizeof(NoticeLine) == 64);

inline constexpr std::uint32_t kNoticeLines = 1024;
inline constexpr std::uint32_t kRegionSlots = 1u << 20;
inline constexpr std::size_t kRegionWordsAt = kNoticeLines * sizeof(NoticeLine);
inline constexpr std::size_t kStateFileBytes = kRegionWordsAt + std::size_t{kRegionSlots} * 8;

inline bool is_live(std::uint64_t region_state) { return region_state % 2 == 1; }

// (slot, state) in one word, as published in a hazard. Never 0: a live state is
// odd. 44 bits of state: 2^43 registrations in one slot cannot happen.
constexpr std::uint64_t hazard_of(std::uint32_t slot, std::uint64_t state) { return (state << 20) | slot; }
static_assert(kRegionSlots == 1u << 20);

// The file mapped for reading, at the peer.
class StateView {
 public:
  StateView() = default;
  // Maps what a peer sent. kMalformedFrame if it is not a sealed file of this size.
  static Result<StateView> map(os::Fd fd);

  // Requires index < kNoticeLines, slot < kRegionSlots: peers' numbers are
  // checked where they arrive.
  const NoticeLine& line(std::uint32_t index) const;
  const std::atomic<std::uint64_t>& region(std::uint32_t slot) const;

 private:
  explicit StateView(os::Mapping mapping) : mapping_(std::move(mapping)) {}
  os::Mapping mapping_;
};

class StateFile {
 public:
  // kResourceExhausted, kOutOfMemory.
  static Result<std::unique_ptr<StateFile>> create();

  // A read-only descriptor to send to peers.
  const os::Fd& fd() const { return fd_; }

  NoticeLine& line(std::uint32_t index);
  std::atomic<std::uint64_t>& region(std::uint32_t slot);

  // Line 0 belongs to the service thread. kResourceExhausted when all are taken.
  Result<std::uint32_t> take_line();
  void give_line(std::uint32_t index);

 private:
  StateFile(os::Fd fd, os::Mapping mapping) : fd_(std::move(fd)), mapping_(std::move(mapping)) {}

  os::Fd fd_;
  os::Mapping mapping_;
  std::mutex mutex_;
  std::array<bool, kNoticeLines> taken_{true};  // Guarded by mutex_.
};

}  // namespace yonder::fabric::shm
