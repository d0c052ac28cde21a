#pragma once
// Epoll: waits for many descriptors at once.
//
// Each descriptor is watched with a token of the caller's choice (an index, a
// pointer), which comes back with every event.
//
// Concurrency: add, modify and remove from any thread, also while another waits;
// events already taken may still name a descriptor removed meanwhile, so tokens
// must stay meaningful until the waiter has come round.
// Lifetime: owns the epoll instance, not the watched descriptors. Remove a
// descriptor before closing it if duplicates of it exist.

#include <cstdint>
#include <span>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/os/fd.h"

namespace yonder::os {

// What to watch for, and what was seen. kError and kHangUp are always watched.
enum EpollBits : std::uint32_t {
  kEpollReadable = 1u << 0,
  kEpollWritable = 1u << 1,
  kEpollPeerClosed = 1u << 2,  // The peer will send nothing more.
  kEpollEdge = 1u << 3,        // Watch only: report changes, not states.
  kEpollError = 1u << 4,       // Seen only.
  kEpollHangUp = 1u << 5,      // Seen only.
};

struct EpollEvent {
  std::uint64_t token;
  std::uint32_t bits;
};

class Epoll {
 public:
  // At most this many events per wait; further ones come with the next call.
  static constexpr std::size_t kMaxEvents = 256;

  // Errors: kResourceExhausted (descriptors), kOutOfMemory.
  static Result<Epoll> create();

  // Errors: kAlreadyExists, kPermissionDenied (a plain file), kResourceExhausted
  // (watches per user), kOutOfMemory.
  Result<void> add(const Fd& fd, std::uint32_t bits, std::uint64_t token) const;
  // Errors: kNotFound (never added).
  Result<void> modify(const Fd& fd, std::uint32_t bits, std::uint64_t token) const;
  Result<void> remove(const Fd& fd) const;

  // Waits for at least one event and fills the front of `events`; returns that
  // part. It is empty if the deadline passed (no error: a loop with timers calls
  // again). A passed deadline makes it a poll. Errors: kOsError.
  Result<std::span<EpollEvent>> wait(std::span<EpollEvent> events, Deadline deadline) const;

  const Fd& fd() const { return fd_; }

 private:
  explicit Epoll(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

}  // namespace yonder::os
