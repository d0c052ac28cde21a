#pragma once
// Userfaultfd: page faults of our own memory, served by us.
//
// A range is registered; from then on touching a page that is not there does not
// get a zeroed page but a Fault, which somebody answers by copying a page in. The
// thread that faulted sleeps until then, or, with kUffdSigbus, gets SIGBUS and
// answers the fault itself in the handler (6 to 9 µs against 10 to 90 µs, because
// no other thread has to wake up).
//
//   YONDER_TRY(uffd, Userfaultfd::open({}));
//   YONDER_TRY_VOID(uffd.register_range(arena.bytes(), kUffdMissing));
//   …in another thread:  YONDER_TRY(fault, uffd.wait_fault(deadline));
//                        uffd.copy({.destination = page_of(fault.address), .source = bytes});
//
// Without the right to serve faults of the kernel's own accesses only user-mode
// faults work: then a read() into a page that is not there fails with EFAULT
// instead of faulting (see user_mode_only()).
//
// Concurrency: all functions from any thread; copy, zero, admit and wake also from a
// SIGBUS handler (one system call each).
// Lifetime: closing it unregisters all ranges; threads asleep in a fault of it
// then get zeroed pages.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/os/fd.h"

namespace yonder::os {

// The kernel's feature bits, also those younger than Debian 12's headers.
enum UffdFeature : std::uint64_t {
  kUffdWriteProtect = 1u << 0,   // Write-protect faults of anonymous memory.
  kUffdMissingShmem = 1u << 5,   // Missing faults of memfds…
  kUffdMissingHuge = 1u << 4,    // …and of huge-page memfds.
  kUffdSigbus = 1u << 7,         // SIGBUS in the faulting thread instead of a Fault.
  kUffdThreadId = 1u << 8,       // Fault::thread_id is filled.
  kUffdMinorShmem = 1u << 10,    // Minor faults of memfds.
  kUffdExactAddress = 1u << 11,  // Fault::address is not rounded to its page.
  kUffdWriteProtectShmem = 1u << 12,
  kUffdWriteProtectUnpopulated = 1u << 13,  // Protecting a range covers pages not there yet.
  kUffdWriteProtectAsync = 1u << 15,        // Writes clear the protection and go on: dirty tracking.
};

// For what a range is registered.
enum UffdMode : std::uint64_t {
  kUffdMissing = 1u << 0,
  kUffdProtected = 1u << 1,
  // The page is in the memfd but not mapped here: somebody fills pages through another
  // mapping of the file, and nobody sees one before admit() says that it is complete.
  kUffdMinor = 1u << 2,
};

struct Fault {
  std::uintptr_t address = 0;  // Of the page, unless kUffdExactAddress.
  bool write = false;          // A write missed the page.
  bool protection = false;     // A write hit a write-protected page.
  std::uint32_t thread_id = 0;
};

class Userfaultfd {
 public:
  // All features of this kernel, as UffdFeature bits (and unknown ones).
  // Errors: kUnsupported (no userfaultfd), kPermissionDenied.
  static Result<std::uint64_t> probe();

  struct Options {
    std::uint64_t features = 0;  // UffdFeature bits; all of them, or the open fails.
  };
  // Asks for kernel-mode faults too and does with user-mode ones if it may not.
  // Errors: kUnsupported (the call or a feature is missing), kPermissionDenied,
  // kResourceExhausted (descriptors).
  static Result<Userfaultfd> open(const Options& options);

  bool user_mode_only() const { return user_mode_only_; }

  // Ranges are page-aligned (huge pages: 2 MiB). Errors: kInvalidArgument
  // (alignment, or memory of a kind that cannot be registered so),
  // kAlreadyExists (registered with another Userfaultfd), kOutOfMemory.
  Result<void> register_range(std::span<std::byte> range, std::uint64_t modes) const;
  Result<void> unregister_range(std::span<std::byte> range) const;

  struct CopyOptions {
    std::span<std::byte> destination;   // Whole pages.
    const std::byte* source = nullptr;  // As many bytes; may itself not be in a registered range that misses.
    bool wake = true;                   // Wakes who waits for these pages.
    bool write_protect = false;         // Put in write-protected.
  };
  // Puts pages in, atomically: a reader sees all of a page or faults.
  // Errors: kAlreadyExists (a page is there; those before it were put in, and
  // nobody was woken: call wake), kNotFound (range is no longer mapped or
  // registered), kOutOfMemory, kOsError.
  Result<void> copy(const CopyOptions& options) const;
  // Puts zeroed pages in. Anonymous memory only. Errors as copy.
  Result<void> zero(std::span<std::byte> range, bool wake = true) const;
  // Maps pages that are in the memfd already, and wakes who waits for them. Needs
  // kUffdMinor. Errors: kAlreadyExists (a page is mapped; those before it are now, too),
  // kNotFound (range is no longer mapped or registered), kOsError (EFAULT: a page is not
  // in the file).
  Result<void> admit(std::span<std::byte> range) const;
  // Wakes who waits for a page of the range.
  Result<void> wake(std::span<std::byte> range) const;
  // Protects the range against writes, or allows them again and wakes who waits.
  // Needs kUffdProtected. Errors: kNotFound (not registered so), kOsError.
  Result<void> write_protect(std::span<std::byte> range, bool on) const;

  // The next fault, or nothing if there is none now. Errors: kOsError.
  Result<std::optional<Fault>> try_next_fault() const;
  // Waits for one. Errors: kDeadlineExceeded, kOsError.
  Result<Fault> wait_fault(Deadline deadline) const;
  // Readable when there is a fault; for Epoll.
  const Fd& fd() const { return fd_; }

 private:
  Userfaultfd(Fd fd, bool user_mode_only) : fd_(std::move(fd)), user_mode_only_(user_mode_only) {}
  static Result<Userfaultfd> open_bare();

  Fd fd_;
  bool user_mode_only_;
};

}  // namespace yonder::os
