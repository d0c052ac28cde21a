#pragma once
// Fd: the one owner of a file descriptor.
//
// Every descriptor of the platform is closed exactly once and never leaks into
// a child process: all makers here set close-on-exec in the same system call
// that creates the descriptor, so that a concurrent fork cannot slip between.
//
// Concurrency: like an int; one thread at a time may change it, any number may
// use get(). Lifetime: closes in the destructor; move-only.

#include <utility>

#include "yonder/base/result.h"

namespace yonder::os {

class Fd {
 public:
  Fd() = default;
  // Takes ownership of `raw`; -1 means "none".
  explicit Fd(int raw) : raw_(raw) {}
  Fd(Fd&& other) noexcept : raw_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  ~Fd() { reset(); }

  // Opens `path` with the O_* bits `flags`; close-on-exec is added.
  // Errors: kNotFound, kPermissionDenied, kResourceExhausted (descriptor limit), kOsError.
  static Result<Fd> open(const char* path, int flags);

  int get() const { return raw_; }
  bool valid() const { return raw_ >= 0; }
  // Gives the descriptor to the caller, who now closes it.
  [[nodiscard]] int release() { return std::exchange(raw_, -1); }
  // Closes the held descriptor, if any, and holds `raw` instead.
  void reset(int raw = -1);

  // A second descriptor of the same open file. Errors: kResourceExhausted.
  Result<Fd> duplicate() const;

  // A new, read-only open file of the same memfd or file: what is handed to a
  // peer that has only read rights, so that its mmap(PROT_WRITE) and write()
  // fail in the kernel. On its own this stops a well-behaved peer only: one with
  // our uid can open /proc/self/fd/N for writing again. Where the peer is not
  // trusted, seal the memfd as well (Memfd::seal with kSealFutureWrite).
  // Errors: kNotFound (no /proc), kPermissionDenied, kResourceExhausted.
  Result<Fd> reopen_read_only() const;

  // Switches O_NONBLOCK of the open file. Errors: kOsError.
  Result<void> set_nonblocking(bool on) const;

 private:
  int raw_ = -1;
};

}  // namespace yonder::os
