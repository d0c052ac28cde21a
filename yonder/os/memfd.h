#pragma once
// Memfd: memory that has a descriptor, so that other processes can map it.
//
// The physical memory of the platform lives in memfds: they can be mapped at
// several addresses, sent to another process over a Unix socket, sealed against
// changes the receiver must be able to rely on, and given back page by page.
//
// Concurrency: all const functions from any thread; the kernel orders them.
// Lifetime: the memory lives until the last descriptor and mapping of it, in
// any process, is gone.

#include <cstddef>
#include <cstdint>

#include "yonder/base/result.h"
#include "yonder/os/fd.h"

namespace yonder::os {

enum class HugePages : std::uint8_t {
  kOff,          // 4 KiB pages.
  kIfAvailable,  // 2 MiB pages if the machine has enough of them reserved, else 4 KiB.
  kRequire,      // 2 MiB pages or kOutOfMemory / kUnsupported.
};

// Seals for Memfd::seal(). A seal can never be removed.
enum Seal : unsigned {
  kSealShrink = 1u << 0,       // The size cannot go down: mapped bytes never SIGBUS.
  kSealGrow = 1u << 1,         // The size cannot go up.
  kSealFutureWrite = 1u << 2,  // No new writable mapping and no write(); existing mappings stay writable.
  kSealSeal = 1u << 3,         // No further seals.
};

struct MemfdOptions {
  const char* name = "yonder";  // Shown in /proc/PID/maps; need not be unique.
  std::size_t size = 0;         // Bytes; rounded up to the page size. Must not be 0.
  HugePages huge_pages = HugePages::kOff;
  bool sealable = true;  // Whether seal() is allowed.
};

class Memfd {
 public:
  // Errors: kInvalidArgument (size 0), kResourceExhausted (descriptors),
  // kOutOfMemory (too large, or kRequire and not enough huge pages),
  // kUnsupported (kRequire and the kernel has no huge pages).
  // Huge pages are reserved for the whole file here, so that a later page fault
  // cannot fail; small pages are allocated when touched.
  static Result<Memfd> create(const MemfdOptions& options);

  // Takes over a memfd that another process sent us; reads its size and page
  // size. Errors: kInvalidArgument (not a memory file: its size is 0 or it is no
  // regular file), kOsError.
  static Result<Memfd> adopt(Fd fd);

  const Fd& fd() const { return fd_; }
  std::size_t size() const { return size_; }
  // 4 KiB or 2 MiB: the granule of offsets for mapping, resizing and holes.
  std::size_t page_bytes() const { return page_bytes_; }

  // Errors: kPermissionDenied (not sealable, or sealed against seals).
  Result<void> seal(unsigned seals);
  // The seals in force, as Seal bits. Errors: kOsError (not a memfd).
  Result<unsigned> seals() const;

  // Gives the physical pages of [offset, offset + length) back; the range reads
  // as zero afterwards in every mapping. Both must be multiples of page_bytes().
  // Errors: kInvalidArgument, kPermissionDenied (sealed against writes), kOsError.
  Result<void> punch_hole(std::size_t offset, std::size_t length);

  // The first range from `offset` on that has pages, length 0 if there is none: to
  // look through a sparse file without filling it (reading a hole through a mapping
  // allocates its page). Errors: kOsError.
  struct Range {
    std::size_t offset;
    std::size_t length;
  };
  Result<Range> next_data(std::size_t offset) const;

  // Errors: kPermissionDenied (sealed), kInvalidArgument (0), kOutOfMemory.
  Result<void> resize(std::size_t size);

 private:
  Memfd(Fd fd, std::size_t size, std::size_t page_bytes)
      : fd_(std::move(fd)), size_(size), page_bytes_(page_bytes) {}
  static Result<Memfd> create_small(const MemfdOptions& options);
  static Result<Memfd> create_huge(const MemfdOptions& options);

  Fd fd_;
  std::size_t size_;
  std::size_t page_bytes_;
};

}  // namespace yonder::os
