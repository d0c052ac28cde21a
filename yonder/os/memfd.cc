#include "yonder/os/memfd.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>

#include "yonder/os/mapping.h"

namespace yonder::os {
namespace {

struct SealName {
  Seal ours;
  unsigned kernel;
};
constexpr SealName kSeals[] = {
    {kSealShrink, F_SEAL_SHRINK},
    {kSealGrow, F_SEAL_GROW},
    {kSealFutureWrite, F_SEAL_FUTURE_WRITE},
    {kSealSeal, F_SEAL_SEAL},
};

Result<Fd> open_memfd(const MemfdOptions& options, unsigned huge_flags) {
  const unsigned flags = MFD_CLOEXEC | huge_flags | (options.sealable ? MFD_ALLOW_SEALING : 0u);
  Fd fd(::memfd_create(options.name, flags));
  if (!fd.valid()) return fail_errno("memfd_create");
  return fd;
}

Result<void> set_size(const Fd& fd, std::size_t size) {
  if (::ftruncate(fd.get(), static_cast<off_t>(size)) == 0) return {};
  // EFBIG and EINVAL say that the size is beyond what a file can have: to the
  // caller that is the same as too little memory.
  const int error_number = errno == EFBIG || errno == EINVAL ? ENOMEM : errno;
  return std::unexpected(Error::from_errno("ftruncate(memfd)", error_number));
}

// hugetlbfs reserves pages when a file is mapped shared, and the reservation
// stays with the file after the unmapping. PROT_NONE is enough.
Result<void> reserve_huge(const Fd& fd, std::size_t size) {
  void* const at = ::mmap(nullptr, size, PROT_NONE, MAP_SHARED, fd.get(), 0);
  if (at == MAP_FAILED) return fail_errno("reserve huge pages");
  ::munmap(at, size);
  return {};
}

}  // namespace

Result<Memfd> Memfd::create(const MemfdOptions& options) {
  if (options.size == 0) return fail(ErrorCode::kInvalidArgument, "memfd size");
  if (options.huge_pages == HugePages::kOff) return create_small(options);
  Result<Memfd> huge = create_huge(options);
  if (huge || options.huge_pages == HugePages::kRequire) return huge;
  return create_small(options);
}

Result<Memfd> Memfd::create_small(const MemfdOptions& options) {
  YONDER_TRY(fd, open_memfd(options, 0));
  const std::size_t size = round_up(options.size, kPageBytes);
  YONDER_TRY_VOID(set_size(fd, size));
  return Memfd(std::move(fd), size, kPageBytes);
}

Result<Memfd> Memfd::create_huge(const MemfdOptions& options) {
  YONDER_TRY(fd, open_memfd(options, MFD_HUGETLB | MFD_HUGE_2MB));
  const std::size_t size = round_up(options.size, kHugePageBytes);
  YONDER_TRY_VOID(set_size(fd, size));
  YONDER_TRY_VOID(reserve_huge(fd, size));
  return Memfd(std::move(fd), size, kHugePageBytes);
}

Result<Memfd> Memfd::adopt(Fd fd) {
  struct stat status{};
  struct statfs file_system{};
  if (::fstat(fd.get(), &status) != 0) return fail_errno("fstat");
  if (::fstatfs(fd.get(), &file_system) != 0) return fail_errno("fstatfs");
  if (!S_ISREG(status.st_mode) || status.st_size <= 0)
    return fail(ErrorCode::kInvalidArgument, "adopt memfd");
  const bool huge = file_system.f_type == HUGETLBFS_MAGIC;
  const std::size_t page_bytes = huge ? static_cast<std::size_t>(file_system.f_bsize) : kPageBytes;
  return Memfd(std::move(fd), static_cast<std::size_t>(status.st_size), page_bytes);
}

Result<void> Memfd::seal(unsigned seals) {
  unsigned bits = 0;
  for (const SealName& name : kSeals) bits |= (seals & name.ours) != 0 ? name.kernel : 0;
  if (::fcntl(fd_.get(), F_ADD_SEALS, bits) != 0) return fail_errno("fcntl(F_ADD_SEALS)");
  return {};
}

Result<unsigned> Memfd::seals() const {
  const int bits = ::fcntl(fd_.get(), F_GET_SEALS);
  if (bits < 0) return fail_errno("fcntl(F_GET_SEALS)");
  unsigned seals = 0;
  for (const SealName& name : kSeals)
    seals |= (static_cast<unsigned>(bits) & name.kernel) != 0 ? name.ours : 0u;
  return seals;
}

Result<void> Memfd::punch_hole(std::size_t offset, std::size_t length) {
  // The kernel would zero the edges of a misaligned range and keep their pages:
  // the caller would believe in memory that was never given back.
  const bool aligned = offset % page_bytes_ == 0 && length % page_bytes_ == 0;
  if (!aligned || length == 0 || length > size_ || offset > size_ - length)
    return fail(ErrorCode::kInvalidArgument, "punch hole", static_cast<std::int64_t>(offset));
  const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  if (::fallocate(fd_.get(), mode, static_cast<off_t>(offset), static_cast<off_t>(length)) != 0)
    return fail_errno("fallocate(PUNCH_HOLE)");
  return {};
}

Result<Memfd::Range> Memfd::next_data(std::size_t offset) const {
  const off_t begin = ::lseek(fd_.get(), static_cast<off_t>(offset), SEEK_DATA);
  if (begin < 0) {
    if (errno == ENXIO) return Range{size_, 0};
    return std::unexpected(Error::from_errno("lseek(SEEK_DATA)"));
  }
  const off_t end = ::lseek(fd_.get(), begin, SEEK_HOLE);
  if (end < 0) return std::unexpected(Error::from_errno("lseek(SEEK_HOLE)"));
  return Range{static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)};
}

Result<void> Memfd::resize(std::size_t size) {
  if (size == 0) return fail(ErrorCode::kInvalidArgument, "memfd size");
  const std::size_t rounded = round_up(size, page_bytes_);
  YONDER_TRY_VOID(set_size(fd_, rounded));
  if (page_bytes_ == kHugePageBytes && rounded > size_) YONDER_TRY_VOID(reserve_huge(fd_, rounded));
  size_ = rounded;
  return {};
}

}  // namespace yonder::os
