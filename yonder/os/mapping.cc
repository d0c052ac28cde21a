#include "yonder/os/mapping.h"

#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <functional>

#include "yonder/base/check.h"

namespace yonder::os {
namespace {

int prot_bits(Protection protection) {
  switch (protection) {
    case Protection::kNone:
      return PROT_NONE;
    case Protection::kRead:
      return PROT_READ;
    case Protection::kReadWrite:
      return PROT_READ | PROT_WRITE;
  }
  return PROT_NONE;
}

// A wanted address is never taken from another mapping: MAP_FIXED would destroy
// whatever the process has there.
int placement(const void* at) { return at == nullptr ? 0 : MAP_FIXED_NOREPLACE; }

Result<void*> map(void* at, std::size_t length, int protection, int flags, int fd, std::size_t offset) {
  if (length == 0) return fail(ErrorCode::kInvalidArgument, "mmap of no bytes");
  void* const address = ::mmap(at, length, protection, flags | placement(at), fd, static_cast<off_t>(offset));
  if (address == MAP_FAILED) {
    if (errno == EINVAL) return fail(ErrorCode::kInvalidArgument, "mmap", EINVAL);
    return fail_errno("mmap");
  }
  if (at != nullptr && address != at) {  // Kernels before 4.17 ignore the flag.
    ::munmap(address, length);
    return fail(ErrorCode::kAlreadyExists, "mmap at a fixed address");
  }
  return address;
}

// The kernel silently rounds a mapping of a huge-page file up to 2 MiB. If we
// did not know, munmap would refuse the odd length, and a MAP_FIXED would
// overwrite what follows the range. 0.2 µs beside the 7 µs of an mmap.
Result<std::size_t> page_bytes_of(const Fd& fd) {
  struct statfs file_system{};
  if (::fstatfs(fd.get(), &file_system) != 0) return fail_errno("fstatfs");
  const bool huge = file_system.f_type == HUGETLBFS_MAGIC;
  return huge ? static_cast<std::size_t>(file_system.f_bsize) : kPageBytes;
}

// Reserves too much and cuts off both ends, because mmap aligns to pages only.
Result<void*> reserve_aligned(std::size_t length, std::size_t alignment) {
  const std::size_t padded = length + alignment - kPageBytes;
  if (padded < length) return fail(ErrorCode::kOutOfMemory, "reserve address space");
  YONDER_TRY(raw, map(nullptr, padded, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  auto* const start = static_cast<std::byte*>(raw);
  const auto address = reinterpret_cast<std::uintptr_t>(start);
  const std::size_t head = round_up(address, alignment) - address;
  const std::size_t tail = padded - head - length;
  if (head != 0) ::munmap(start, head);
  if (tail != 0) ::munmap(start + head + length, tail);
  return start + head;
}

}  // namespace

std::uint64_t max_mappings() {
  constexpr std::uint64_t kSystemDefault = 65'530;
  std::uint64_t count = 0;
  std::FILE* file = std::fopen("/proc/sys/vm/max_map_count", "re");
  if (file == nullptr) return kSystemDefault;
  const bool read = std::fscanf(file, "%" SCNu64, &count) == 1;
  std::fclose(file);
  return read ? count : kSystemDefault;
}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    reset();
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

Result<Mapping> Mapping::anonymous(const AnonymousOptions& options) {
  const std::size_t length = round_up(options.bytes, kPageBytes);
  const int flags =
      MAP_ANONYMOUS | (options.shared ? MAP_SHARED : MAP_PRIVATE) | (options.populate ? MAP_POPULATE : 0);
  YONDER_TRY(address, map(options.at, length, prot_bits(options.protection), flags, -1, 0));
  return Mapping(address, length);
}

Result<Mapping> Mapping::of_file(const Fd& fd, const FileMappingOptions& options) {
  YONDER_TRY(page_bytes, page_bytes_of(fd));
  const std::size_t length = round_up(options.bytes, page_bytes);
  const int flags = (options.shared ? MAP_SHARED : MAP_PRIVATE) | (options.populate ? MAP_POPULATE : 0);
  YONDER_TRY(address,
             map(options.at, length, prot_bits(options.protection), flags, fd.get(), options.offset));
  return Mapping(address, length);
}

Result<Mapping> Mapping::reserve(const ReserveOptions& options) {
  const std::size_t length = round_up(options.bytes, kPageBytes);
  if (length == 0) return fail(ErrorCode::kInvalidArgument, "reserve no bytes");
  if (!std::has_single_bit(options.alignment) || options.alignment < kPageBytes)
    return fail(ErrorCode::kInvalidArgument, "reserve alignment",
                static_cast<std::int64_t>(options.alignment));
  if (options.at == nullptr) {
    YONDER_TRY(address, reserve_aligned(length, options.alignment));
    return Mapping(address, length);
  }
  YONDER_TRY(address, map(options.at, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  return Mapping(address, length);
}

std::span<std::byte> Mapping::bytes(std::size_t offset, std::size_t length) const {
  YONDER_CHECK(offset <= size_ && length <= size_ - offset, "span lies inside the mapping");
  return {data_ + offset, length};
}

bool Mapping::contains(const void* address) const {
  const std::less_equal<const void*> at_most;
  return data_ != nullptr && at_most(data_, address) && !at_most(data_ + size_, address);
}

void Mapping::reset() {
  if (data_ != nullptr) YONDER_CHECK(::munmap(data_, size_) == 0, "a mapping we own can be unmapped");
  data_ = nullptr;
  size_ = 0;
}

std::span<std::byte> Mapping::release() { return {std::exchange(data_, nullptr), std::exchange(size_, 0)}; }

Result<void> Mapping::check_range(std::size_t offset, std::size_t length) const {
  const bool aligned = offset % kPageBytes == 0 && length % kPageBytes == 0;
  if (!aligned || length == 0 || offset > size_ || length > size_ - offset)
    return fail(ErrorCode::kInvalidArgument, "range of a mapping", static_cast<std::int64_t>(offset));
  return {};
}

Result<void> Mapping::replace(std::size_t offset, std::size_t length, int protection, int flags, int fd,
                              std::size_t file_offset) {
  YONDER_TRY_VOID(check_range(offset, length));
  // The bare system call: ThreadSanitizer takes mmap() for a write to the whole range, and
  // who replaces a mapping under its readers does so on purpose.
  if (::syscall(SYS_mmap, data_ + offset, length, protection, flags | MAP_FIXED, fd, file_offset) == -1) {
    if (errno == EINVAL) return fail(ErrorCode::kInvalidArgument, "remap", EINVAL);
    return fail_errno("mmap(MAP_FIXED)");
  }
  return {};
}

Result<void> Mapping::remap_file(std::size_t offset, const Fd& fd, const FileMappingOptions& options) {
  if (options.at != nullptr) return fail(ErrorCode::kInvalidArgument, "remap at an address");
  YONDER_TRY(page_bytes, page_bytes_of(fd));
  const int flags = (options.shared ? MAP_SHARED : MAP_PRIVATE) | (options.populate ? MAP_POPULATE : 0);
  return replace(offset, round_up(options.bytes, page_bytes), prot_bits(options.protection), flags, fd.get(),
                 options.offset);
}

Result<void> Mapping::remap_anonymous(std::size_t offset, std::size_t length) {
  return replace(offset, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

Result<Mapping> Mapping::move_out(std::size_t offset, std::size_t length, Mapping room) {
  YONDER_TRY_VOID(check_range(offset, length));
  if (room.size_ != length) return fail(ErrorCode::kInvalidArgument, "move pages into a room");
  // One system call: leaving a reservation behind (MREMAP_DONTUNMAP and a second one) takes a
  // fifth longer, and between the two an access would find the same pages by a fault.
  if (::mremap(data_ + offset, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, room.data_) == MAP_FAILED) {
    const Error error = Error::from_errno("mremap", errno);
    // The kernel may have unmapped the room already, and somebody else may have it by now:
    // better some addresses lost than somebody's memory.
    (void)room.release();
    return std::unexpected(error);
  }
  return room;
}

Result<void> Mapping::reserve_hole(std::size_t offset, std::size_t length) {
  YONDER_TRY_VOID(check_range(offset, length));
  YONDER_TRY_VOID(map(data_ + offset, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  return {};
}

Result<void> Mapping::remap_reserved(std::size_t offset, std::size_t length) {
  return replace(offset, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

Result<void> Mapping::protect(std::size_t offset, std::size_t length, Protection protection) {
  YONDER_TRY_VOID(check_range(offset, length));
  if (::mprotect(data_ + offset, length, prot_bits(protection)) != 0) return fail_errno("mprotect");
  return {};
}

Result<void> Mapping::advise(std::size_t offset, std::size_t length, int advice, const char* call) {
  YONDER_TRY_VOID(check_range(offset, length));
  if (::madvise(data_ + offset, length, advice) == 0) return {};
  // The range was checked, so EINVAL can only mean that this kernel does not know the advice.
  if (errno == EINVAL) return fail(ErrorCode::kUnsupported, call, EINVAL);
  return fail_errno(call);
}

Result<void> Mapping::drop_pages(std::size_t offset, std::size_t length) {
  return advise(offset, length, MADV_DONTNEED, "madvise(DONTNEED)");
}

Result<void> Mapping::prefer_huge_pages(std::size_t offset, std::size_t length) {
  return advise(offset, length, MADV_HUGEPAGE, "madvise(HUGEPAGE)");
}

Result<void> Mapping::keep_from_children(std::size_t offset, std::size_t length) {
  return advise(offset, length, MADV_DONTFORK, "madvise(MADV_DONTFORK)");
}

Result<void> Mapping::populate_write(std::size_t offset, std::size_t length) {
  return advise(offset, length, MADV_POPULATE_WRITE, "madvise(POPULATE_WRITE)");
}

Result<void> Mapping::populate_read(std::size_t offset, std::size_t length) {
  return advise(offset, length, MADV_POPULATE_READ, "madvise(POPULATE_READ)");
}

}  // namespace yonder::os
