// mmap and its family: large anonymous memory is far.
//
// Protection is not kept in far memory: mprotect() of it does nothing unless it asks for
// the right to execute. Whoever maps something else over it, at a fixed address, gets
// EINVAL: the space would lose its pages.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <span>

#include "apps/preload/next.h"
#include "apps/preload/runtime.h"

namespace {

using yonder::heap::kPageBytes;
using yonder::os::round_up;
using yonder::preload::is_far;
using yonder::preload::may_be_far;
using yonder::preload::Runtime;
using yonder::preload::runtime;

// Smaller mappings are not worth it, and often are something special.
constexpr std::size_t kMinFarBytes = 1 << 20;

void* const kFailed = MAP_FAILED;

void* plain_mmap(void* at, std::size_t bytes, int protection, int flags, int fd, off_t offset) {
  const long result = ::syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
  return result == -1 ? kFailed : reinterpret_cast<void*>(result);
}

std::span<std::byte> range_of(void* at, std::size_t bytes) {
  return {static_cast<std::byte*>(at), round_up(bytes, kPageBytes)};
}

bool is_wanted(std::size_t bytes, int protection, int flags) {
  constexpr int kSpecial = MAP_SHARED | MAP_STACK | MAP_GROWSDOWN | MAP_HUGETLB | MAP_FIXED |
                           MAP_FIXED_NOREPLACE | MAP_LOCKED | MAP_32BIT;
  return bytes >= kMinFarBytes && protection == (PROT_READ | PROT_WRITE) && (flags & MAP_ANONYMOUS) != 0 &&
         (flags & kSpecial) == 0;
}

void* map(void* at, std::size_t bytes, int protection, int flags, int fd, off_t offset, const void* caller) {
  if ((flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) != 0 && is_far(at)) {
    if ((flags & MAP_ANONYMOUS) == 0 || (flags & MAP_SHARED) != 0) {
      errno = EINVAL;
      return kFailed;
    }
    runtime()->space->discard(range_of(at, bytes));
    return at;
  }
  if (is_wanted(bytes, protection, flags) && may_be_far(caller)) {
    const std::span<std::byte> mapped = runtime()->arena->map(round_up(bytes, kPageBytes) / kPageBytes);
    if (!mapped.empty()) return mapped.data();
    errno = ENOMEM;
    return kFailed;
  }
  return plain_mmap(at, bytes, protection, flags, fd, offset);
}

void* move(void* at, std::size_t old_bytes, std::size_t new_bytes, int flags) {
  Runtime& far = *runtime();
  const std::span<std::byte> before = range_of(at, old_bytes);
  const std::size_t after = round_up(new_bytes, kPageBytes);
  if ((flags & MREMAP_FIXED) != 0 || after == 0) {
    errno = EINVAL;
    return kFailed;
  }
  if (after <= before.size()) {
    if (after < before.size()) far.arena->unmap(before.subspan(after));
    return at;
  }
  if (far.arena->extend(before, (after - before.size()) / kPageBytes)) return at;
  const std::span<std::byte> moved =
      (flags & MREMAP_MAYMOVE) != 0 ? far.arena->map(after / kPageBytes) : std::span<std::byte>();
  if (moved.empty()) {
    errno = ENOMEM;
    return kFailed;
  }
  std::memcpy(moved.data(), before.data(), before.size());
  far.arena->unmap(before);
  return moved.data();
}

}  // namespace

YONDER_INTERPOSE void* mmap(void* at, std::size_t bytes, int protection, int flags, int fd,
                            off_t offset) noexcept {
  return map(at, bytes, protection, flags, fd, offset, __builtin_return_address(0));
}
YONDER_INTERPOSE void* mmap64(void* at, std::size_t bytes, int protection, int flags, int fd,
                              off_t offset) noexcept {
  return map(at, bytes, protection, flags, fd, offset, __builtin_return_address(0));
}

YONDER_INTERPOSE int munmap(void* at, std::size_t bytes) noexcept {
  if (!is_far(at)) return static_cast<int>(::syscall(SYS_munmap, at, bytes));
  runtime()->arena->unmap(range_of(at, bytes));
  return 0;
}

YONDER_INTERPOSE void* mremap(void* at, std::size_t old_bytes, std::size_t new_bytes, int flags,
                              ...) noexcept {
  std::va_list rest;
  va_start(rest, flags);
  void* target = (flags & MREMAP_FIXED) != 0 ? va_arg(rest, void*) : nullptr;
  va_end(rest);
  if (is_far(at)) return move(at, old_bytes, new_bytes, flags);
  const long result = ::syscall(SYS_mremap, at, old_bytes, new_bytes, flags, target);
  return result == -1 ? kFailed : reinterpret_cast<void*>(result);
}

YONDER_INTERPOSE int madvise(void* at, std::size_t bytes, int advice) noexcept {
  if (!is_far(at)) return static_cast<int>(::syscall(SYS_madvise, at, bytes, advice));
  if (advice == MADV_DONTNEED || advice == MADV_FREE) runtime()->space->discard(range_of(at, bytes));
  return 0;  // The rest are hints that mean nothing here.
}

YONDER_INTERPOSE int mprotect(void* at, std::size_t bytes, int protection) noexcept {
  if (is_far(at) && (protection & PROT_EXEC) == 0) return 0;
  return static_cast<int>(::syscall(SYS_mprotect, at, bytes, protection));
}
